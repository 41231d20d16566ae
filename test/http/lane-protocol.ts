// The requests of the lane contract (lanes.test.ts) about the protocol: methods, targets, headers, bodies in parts.
import { bearer, delta, http, newKey, one, snapshot, subject, type Case, type World } from "./lane-cases.ts";

const OPTIONS = ["origin: https://app.example.com", "access-control-request-method: POST"];

export const protocolCases: Case[] = [
  one("HEAD of a hot endpoint", 200, "HEAD /v1/keys/{key}"),
  one("HEAD of a cold endpoint", 200, "HEAD /v1/workspace"),
  one("HEAD of a page in chunks", 200, snapshot.replace("GET", "HEAD")),
  one("HEAD of no route", 404, "HEAD /nowhere"),
  one("OPTIONS of a hot endpoint", 204, "OPTIONS /v1/keys", { as: "none" }),
  one("OPTIONS of a cold endpoint", 204, "OPTIONS /v1/workspace", { as: "none" }),
  one("a CORS preflight", 204, "OPTIONS /v1/embed/keys", { as: "none", headers: OPTIONS }),
  one("a refused CORS preflight", 403, "OPTIONS /v1/embed/keys", {
    as: "none",
    headers: ["origin: https://evil.example"],
  }),
  one("a method that the embed plane lacks", 405, "PUT /v1/embed/keys", { as: "none", headers: OPTIONS }),
  one("a wrong method, hot", 405, "DELETE /v1/ratelimit/check", { as: "none" }),
  one("a wrong method, of a path that looks like an id of a hot endpoint", 405, "GET /v1/keys/lookup"),
  one("a wrong method, cold", 405, "PUT /v1/workspace", { as: "none" }),
  one("an unusual method", 405, "PROPFIND /v1/keys", { as: "none" }),
  one("no route", 404, "GET /nowhere", { as: "none" }),
  one("a trailing slash, hot", 404, "GET /v1/keys/{key}/"),
  one("a trailing slash, cold", 404, "GET /v1/workspace/"),
  one("dot segments", 404, "GET /v1/keys/x/../{key}"),
  one("a parent of a hot path", 404, "GET /v1/keys/.."),
  one("an escaped letter in a hot path", 404, "GET /v1/%6beys/{key}"),
  one("an escape in a parameter", 400, "GET /v1/keys/%41"),
  one("a backslash in a parameter", 404, "GET /v1/keys/a\\b"),
  one("braces in a parameter", 400, "GET /v1/keys/a{b}"),
  one("a fragment in the query", 400, `${delta}0#x`),
  one("an escape that does not decode", 400, "GET /v1/keys/%zz"),
  one("an absolute target", 200, "GET http://keyrack.example/v1/keys/{key}"),
  one("two Host headers", 400, "GET /v1/keys/{key}", { headers: ["host: y"] }),
  one("two credentials, hot", 401, "GET /v1/keys/{key}", { headers: ["authorization: Bearer krsk_live_x"] }),
  one("two credentials, cold", 401, "GET /v1/workspace", { headers: ["authorization: Bearer krsk_live_x"] }),
  one("HTTP/1.0", 200, "GET /v1/keys/{key}", { version: "1.0" }),
  one("HTTP/1.0 that stays", 200, "GET /v1/keys/{key}", { version: "1.0", headers: ["connection: keep-alive"] }),
  one("the last request of a connection", 200, "GET /v1/keys/{key}", { headers: ["connection: close"] }),
  one("Expect: 100-continue", 201, "POST /v1/keys", (v) => ({ body: newKey(v), headers: ["expect: 100-continue"] })),
  one("an unknown expectation", 200, "GET /v1/keys/{key}", { headers: ["expect: tea"] }),
  { name: "no Host", statuses: [400], parts: () => "GET /healthz HTTP/1.1\r\n\r\n" },
  { name: "CONNECT", statuses: [405], parts: () => "CONNECT x:443 HTTP/1.1\r\nhost: x:443\r\n\r\n" },
  { name: "what is not HTTP", statuses: [400], parts: () => "NONSENSE\r\n\r\n" },
  {
    name: "headers past 16 KiB",
    statuses: [431],
    parts: () => `GET / HTTP/1.1\r\nhost: x\r\nx: ${"y".repeat(20_000)}\r\n\r\n`,
  },
  {
    name: "both a length and chunks",
    statuses: [400],
    parts: () =>
      "POST /v1/keys HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
  },
  { name: "a chunked body, hot", statuses: [201], parts: (v) => chunked(v, "/v1/keys", newKey(v)) },
  { name: "a chunked body, cold", statuses: [201], parts: (v) => chunked(v, "/v1/tenants", { external_id: "chunks" }) },
  { name: "an untyped empty body, hot", statuses: [400], parts: (v) => untyped(v, "/v1/keys") },
  {
    name: "an untyped empty body, cold",
    statuses: [200],
    fresh: true,
    parts: (v) => untyped(v, `/v1/keys/${v.keyId}/revoke`),
  },
  { name: "an untyped body, hot", statuses: [415], parts: (v) => untyped(v, "/v1/keys", "2\r\n{}\r\n") },
  { name: "an untyped body, cold", statuses: [415], parts: (v) => untyped(v, "/v1/tenants", "2\r\n{}\r\n") },
  { name: "a chunked body that breaks", statuses: [400], parts: (v) => chunked(v, "/v1/keys", {}, "zz\r\n") },
  {
    name: "a body in several packets",
    statuses: [201],
    parts: (v) => http(v, "POST /v1/keys", { body: newKey(v) }).match(/[^]{1,150}/g) ?? [],
  },
  {
    name: "pipelined requests of both lanes",
    statuses: [200, 201, 404, 200, 405, 200],
    parts: (v) =>
      [
        http(v, "GET /v1/workspace"),
        http(v, "POST /v1/keys", { body: newKey(v) }),
        http(v, "GET /nowhere"),
        http(v, "GET /v1/keys/{key}"),
        http(v, "PUT /v1/keys"),
        http(v, "POST /v1/ratelimit/check", { body: { ...subject(v), cost: 0 } }),
      ].join(""),
  },
  {
    name: "a mutation before what is not HTTP",
    statuses: [201, 400],
    parts: (v) => `${http(v, "POST /v1/keys", { body: newKey(v) })}NONSENSE\r\n\r\n`,
  },
];

function untyped(world: World, path: string, chunks = ""): string {
  return `POST ${path} HTTP/1.1\r\nhost: x\r\n${bearer(world, "owner")}transfer-encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`;
}

function chunked(world: World, path: string, body: object, broken = ""): string {
  const chunks = (JSON.stringify(body).match(/.{1,20}/g) ?? []).map(
    (text) => `${text.length.toString(16)}\r\n${text}\r\n`,
  );
  const head = `POST ${path} HTTP/1.1\r\nhost: x\r\n${bearer(world, "owner")}content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n`;
  return `${head}${broken}${chunks.join("")}0\r\n\r\n`;
}
