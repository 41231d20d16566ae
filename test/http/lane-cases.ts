// The requests of the lane contract (lanes.test.ts), but for those about the protocol (lane-protocol.ts): each is sent
// to an instance with and one without the fast lane.
import { vi } from "vitest";
import { OverloadGuard } from "../../src/http/overload-guard.ts";
import type { RawOptions } from "../../harness/processes/raw-http.ts";
import { neverOverloaded } from "../../harness/instances/local-instance.ts";
import type { TestInstance, Workspace } from "../../harness/instances/test-instance.ts";
import { telemetryBatch, telemetryEvent } from "../../harness/telemetry.ts";

export type World = {
  instance: TestInstance;
  workspace: Workspace;
  keyId: string;
  /** The clock of the instance's overload guard. */
  overload: { now: () => number };
};

export type Case = RawOptions & {
  name: string;
  /** Statuses in order; all of them when every response has come. */
  statuses: number[];
  parts: (world: World) => string | string[] | Promise<string>;
  /** In a workspace of its own: it depends on what other cases change, or changes what they depend on. */
  fresh?: true;
  /** A request that comes before. */
  before?: (world: World) => string;
  /** A fault for as long as the request runs. */
  during?: (world: World) => { mockRestore(): void };
};

type Sent = {
  as?: "owner" | "test" | "none" | "bad";
  body?: unknown;
  raw?: string;
  headers?: string[];
  version?: string;
};

export const bearer = ({ workspace }: World, as: Sent["as"]): string => {
  const token = { owner: workspace.keys.sk_owner, test: workspace.keys.sk_test, bad: "krsk_live_x", none: "" }[
    as ?? "owner"
  ];
  return token === "" ? "" : `authorization: Bearer ${token}\r\n`;
};

/** A whole request; `{key}` in the route is the id of a minted key. */
export function http(world: World, route: string, { as, body, raw, headers = [], version = "1.1" }: Sent = {}): string {
  const [method = "", path = ""] = route.split(" ");
  const text = raw ?? (body === undefined ? undefined : JSON.stringify(body));
  const content = text === undefined ? undefined : Buffer.from(text).toString("latin1");
  const typed = headers.some((line) => line.startsWith("content-type")) ? "" : "content-type: application/json\r\n";
  const length = content === undefined ? "" : `${typed}content-length: ${content.length}\r\n`;
  const lines = headers.map((line) => `${line}\r\n`).join("");
  const target = path.replace("{key}", world.keyId).replace("{project}", world.workspace.project_id);
  return `${method} ${target} HTTP/${version}\r\nhost: x\r\n${bearer(world, as)}${length}${lines}\r\n${content ?? ""}`;
}

export const one = (name: string, status: number, route: string, sent: Sent | ((world: World) => Sent) = {}): Case => ({
  name,
  statuses: [status],
  head: route.startsWith("HEAD"),
  parts: (world) => http(world, route, typeof sent === "function" ? sent(world) : sent),
});

const HASH = "a".repeat(64);
const LIMIT = { id: "a", limit: 2, window_ms: 60_000, algorithm: "sliding", scope: "key" };
export const subject = ({ workspace }: World) => ({
  project_id: workspace.project_id,
  env: "live",
  key_id: workspace.project_id,
  limits: [LIMIT],
});
export const newKey = ({ workspace }: World) => ({
  project_id: workspace.project_id,
  tenant_id: workspace.tenant_id,
  env: "live",
  name: "lanes",
});
const claim = { scope_hash: HASH, env: "live", fingerprint: HASH };
const held = { scope_hash: HASH, env: "live", lock_token: "none-such" };
const batch = ({ instance, workspace }: World, events = 1) => {
  const ts = new Date(instance.clock.now()).toISOString();
  const event = telemetryEvent({ ts, project_id: workspace.project_id, request_id: "q" });
  return telemetryBatch(Array.from({ length: events }, () => event));
};
export const delta = "GET /v1/policy/delta?project_id={project}&since=";
export const snapshot = "GET /v1/policy/snapshot?project_id={project}";
const keyed = (world: World, key: string, name: string): Sent => ({
  body: { ...newKey(world), name },
  headers: [`idempotency-key: ${key}`],
});

export const hotCases: Case[] = [
  one("ratelimit/check", 200, "POST /v1/ratelimit/check", (v) => ({ body: subject(v) })),
  one("a denied check", 200, "POST /v1/ratelimit/check", (v) => ({ body: { ...subject(v), cost: 5 } })),
  one("ratelimit/lease", 200, "POST /v1/ratelimit/lease", (v) => ({ body: { ...subject(v), want: 1 } })),
  one("ratelimit/return", 200, "POST /v1/ratelimit/return", (v) => ({ body: { lease_id: v.workspace.id, unused: 1 } })),
  one("idempotency/claim", 200, "POST /v1/idempotency/claim", { body: claim }),
  one("a second claim", 200, "POST /v1/idempotency/claim", { body: claim }),
  one("idempotency/heartbeat", 200, "POST /v1/idempotency/heartbeat", { body: held }),
  one("idempotency/complete", 200, "POST /v1/idempotency/complete", { body: { ...held, status: 200 } }),
  one("idempotency/release", 200, "POST /v1/idempotency/release", { body: held }),
  one("ingest/batch", 202, "POST /v1/ingest/batch", (v) => ({ body: batch(v) })),
  one("a larger batch", 202, "POST /v1/ingest/batch", (v) => ({ body: batch(v, 12) })),
  {
    ...one("a batch over the budget", 429, "POST /v1/ingest/batch", (v) => ({ body: batch(v, 12) })),
    fresh: true,
    before: (v) => http(v, "POST /v1/ingest/batch", { body: batch(v, 12) }),
  },
  one("policy/snapshot", 200, snapshot),
  one("a page of policy/snapshot", 200, `${snapshot}&max_keys=1`),
  one("policy/delta", 200, `${delta}0`),
  { ...one("policy/delta with nothing new", 304, `${delta}2`), fresh: true },
  one(
    "policy/delta of an unknown project",
    404,
    "GET /v1/policy/delta?project_id=00000000-0000-7000-8000-000000000000&since=0",
  ),
  one("POST /v1/keys", 201, "POST /v1/keys", (v) => ({ body: newKey(v) })),
  one("a name that is not ASCII", 201, "POST /v1/keys", (v) => ({ body: { ...newKey(v), name: "Łódź" } })),
  one("GET /v1/keys/{id}", 200, "GET /v1/keys/{key}"),
  { ...one("an id in upper case", 200, ""), parts: (v) => http(v, `GET /v1/keys/${v.keyId.toUpperCase()}`) },
  one("an unknown key", 404, "GET /v1/keys/00000000-0000-7000-8000-000000000000"),
  one("a first Idempotency-Key", 201, "POST /v1/keys", (v) => keyed(v, "one", "first")),
  {
    ...one("an idempotency replay", 201, "POST /v1/keys", (v) => keyed(v, "again", "first")),
    before: (v) => http(v, "POST /v1/keys", keyed(v, "again", "first")),
  },
  {
    ...one("an Idempotency-Key with another body", 422, "POST /v1/keys", (v) => keyed(v, "other", "second")),
    before: (v) => http(v, "POST /v1/keys", keyed(v, "other", "first")),
  },
  {
    name: "an Idempotency-Key whose first request is still running on this connection",
    statuses: [201, 201],
    parts: (v) => http(v, "POST /v1/keys", keyed(v, "two", "x")) + http(v, "POST /v1/keys", keyed(v, "two", "x")),
  },
  one("a bad Idempotency-Key", 400, "POST /v1/keys", (v) => keyed(v, "ä", "first")),
];

export const coldCases: Case[] = [
  one("GET /v1/workspace", 200, "GET /v1/workspace"),
  one("a list", 200, "GET /v1/keys?limit=2"),
  one("POST /v1/tenants", 201, "POST /v1/tenants", { body: { external_id: "lanes", meta: { a: [1, "é"] } } }),
  one("a conflict", 409, "POST /v1/tenants", { body: { external_id: "customer" } }),
  one("PATCH /v1/keys/{id}", 200, "PATCH /v1/keys/{key}", { body: { name: "renamed" } }),
  { ...one("an action on a key", 200, "POST /v1/keys/{key}/revoke", { body: {} }), fresh: true },
  one("text/plain", 200, "GET /v1/audit_logs/checkpoint"),
  one("the JWKS", 200, "GET /.well-known/jwks.json", { as: "none" }),
  one("a probe", 200, "GET /healthz?any=1", { as: "none" }),
  one("the API's description", 200, "GET /openapi.json", { as: "none" }),
  one("a missing asset", 404, "GET /assets/none.js", { as: "none" }),
  one("a webhook that is off", 404, "POST /v1/webhooks/scanner/secret_scanning", { as: "none", raw: "[]" }),
];

/** On a hot endpoint and a cold one each, where both can refuse in this way. */
export const refusalCases: Case[] = [
  one("no credential, hot", 401, "GET /v1/keys/{key}", { as: "none" }),
  one("no credential, cold", 401, "GET /v1/workspace", { as: "none" }),
  one("a bad credential, hot", 401, "POST /v1/ratelimit/check", { as: "bad", raw: "{}" }),
  one("a bad credential, cold", 401, "GET /v1/workspace", { as: "bad" }),
  one("a body answered unread", 401, "POST /v1/keys", { as: "bad", raw: " ".repeat(100_000) }),
  one("a test key on live data", 403, "POST /v1/keys", (v) => ({ as: "test", body: newKey(v) })),
  one("a test key where none may act", 403, "PATCH /v1/workspace", { as: "test", body: { name: "x" } }),
  one("no JSON, hot", 400, "POST /v1/keys", { raw: "{" }),
  one("no JSON, cold", 400, "POST /v1/tenants", { raw: "{" }),
  one("bad fields, hot", 400, "POST /v1/keys", { body: { env: "x", __proto: 1, name: "" } }),
  one("a bad batch", 400, "POST /v1/ingest/batch", { raw: "[]" }),
  one("bad fields, cold", 400, "POST /v1/tenants", { body: { external_id: 7 } }),
  one("a lone surrogate", 400, "POST /v1/keys", { raw: '{"env":"\\ud800"}' }),
  one("a bad path, hot", 400, "GET /v1/keys/seven"),
  one("a bad path, cold", 400, "GET /v1/tenants/seven"),
  one("a bad query, hot", 400, `${delta}x&y=1`),
  one("a bad query, cold", 400, "GET /v1/keys?limit=x"),
  one("another media type, hot", 415, "POST /v1/keys", { raw: "x", headers: ["content-type: text/xml"] }),
  one("another media type, cold", 415, "POST /v1/tenants", { raw: "x", headers: ["content-type: text/xml"] }),
  one("an encoded body", 415, "POST /v1/keys", { raw: "{}", headers: ["content-encoding: gzip"] }),
  {
    name: "an endpoint past its throttle",
    statuses: [200, 200, 200, 200, 200, 200, 429],
    parts: (v) => http(v, "GET /v1/audit_logs/chain").repeat(7),
  },
  { ...one("an oversized body, hot", 413, "POST /v1/keys"), parts: (v) => oversized(v, "/v1/keys") },
  { ...one("an oversized body, cold", 413, "POST /v1/tenants"), parts: (v) => oversized(v, "/v1/tenants") },
  { ...one("an oversized chunked body, hot", 413, "POST /v1/keys"), parts: (v) => chunkedTooLong(v, "/v1/keys") },
  {
    ...one("an oversized chunked body, cold", 413, "POST /v1/tenants"),
    parts: (v) => chunkedTooLong(v, "/v1/tenants"),
  },
  { ...one("a deep body, hot", 400, "POST /v1/keys"), parts: (v) => tooDeep(v, "/v1/keys") },
  { ...one("a deep body, cold", 400, "POST /v1/tenants"), parts: (v) => tooDeep(v, "/v1/tenants") },
  { ...one("a wide body, hot", 400, "POST /v1/keys"), parts: (v) => chunkedTooWide(v, "/v1/keys") },
  { ...one("a wide body, cold", 400, "POST /v1/tenants"), parts: (v) => chunkedTooWide(v, "/v1/tenants") },
];

function tooDeep(world: World, path: string): string {
  return oversized(world, path, 200_000) + "[".repeat(100);
}

function chunkedTooWide(world: World, path: string): string[] {
  const [head = ""] = chunkedTooLong(world, path, 0);
  return [head + `2710\r\n${"[],".repeat(3_333)}[\r\n`.repeat(2), `2710\r\n${"[],".repeat(3_333)}[\r\n`];
}

function oversized(world: World, path: string, length = 300_000): string {
  return `POST ${path} HTTP/1.1\r\nhost: x\r\n${bearer(world, "owner")}content-type: application/json\r\ncontent-length: ${length}\r\n\r\n{`;
}

function chunkedTooLong(world: World, path: string, chunks = 6): string[] {
  const head = `POST ${path} HTTP/1.1\r\nhost: x\r\n${bearer(world, "owner")}content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n`;
  return [head + `10000\r\n${" ".repeat(65_536)}\r\n`.repeat(chunks)];
}

const spy = {
  notDurable: ({ instance }: World) =>
    vi.spyOn(instance.app.services.store, "durable").mockImplementation(() => Promise.reject(new Error("EIO"))),
  brokenLog: ({ instance }: World) =>
    vi.spyOn(instance.app.services.log, "info").mockImplementation(() => {
      throw new Error("no log");
    }),
  overloaded: () => vi.spyOn(OverloadGuard.prototype, "shedding", "get").mockReturnValue(true),
  /** The clock of the overload guard jumps whenever it is read while a poll is waiting. */
  late: ({ instance, overload }: World) => {
    let ms = 0;
    overload.now = () => (instance.app.services.feed.waiting > 0 ? (ms += 31_000) : ms);
    return { mockRestore: () => void (overload.now = neverOverloaded) };
  },
};

export const faultCases: Case[] = [
  { ...one("a read that is not durable, hot", 503, "GET /v1/keys/{key}"), during: spy.notDurable },
  { ...one("a read that is not durable, cold", 503, "GET /v1/workspace"), during: spy.notDurable },
  { ...one("a bug, hot", 500, "GET /v1/keys/{key}", { as: "none" }), during: spy.brokenLog },
  { ...one("a bug, cold", 500, "GET /v1/workspace", { as: "none" }), during: spy.brokenLog },
  { ...one("overload, hot", 503, "POST /v1/keys", (v) => ({ body: newKey(v) })), during: spy.overloaded },
  { ...one("overload, cold", 503, "GET /v1/workspace"), during: spy.overloaded },
  { ...one("overload, a probe", 200, "GET /healthz", { as: "none" }), during: spy.overloaded },
  {
    name: "the deadline of a long poll",
    statuses: [503],
    during: spy.late,
    parts: async (v) => {
      const { body } = await v.workspace.call("sk_owner", `GET /v1/projects/${v.workspace.project_id}`);
      return http(v, `${delta}${body.policy_version}&wait_ms=25000`);
    },
  },
];
