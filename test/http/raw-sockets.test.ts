// Requests over a bare socket in forms that no client library sends, and pipelined requests.
import { ServerResponse } from "node:http";
import { beforeAll, describe, expect, it, vi } from "vitest";
import { OverloadGuard } from "../../src/http/overload-guard.ts";
import { freshEmail, lastMail, PASSWORD } from "../../harness/instances/people.ts";
import { sendRaw, type RawResponse } from "../../harness/processes/raw-http.ts";
import { sharedInstance, type Workspace } from "../../harness/instances/test-instance.ts";

const instance = sharedInstance("sqlite");
let workspace: Workspace;
beforeAll(async () => {
  workspace = await instance.workspace();
});

const raw = (text: string): Promise<RawResponse[]> => sendRaw(instance.url, text);

const auth = (): string => `host: x\r\nauthorization: Bearer ${workspace.keys.sk_owner}\r\n`;
const get = (target: string, more = ""): string =>
  `GET ${target} HTTP/1.1\r\n${auth()}${more}connection: close\r\n\r\n`;
const post = (external_id: string): string => {
  const body = JSON.stringify({ external_id });
  return `POST /v1/tenants HTTP/1.1\r\n${auth()}content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
};

describe("one request over a socket", () => {
  for (const [why, text, status] of [
    ["an absolute target", () => get("http://keyrack.example/v1/workspace"), 200],
    ["an absolute target of no route", () => get("http://keyrack.example/v1/workspace/"), 404],
    ["an absolute target without a path", () => get("http://keyrack.example"), 404],
    ["an unknown expectation", () => get("/v1/workspace", "expect: tea\r\n"), 200],
    ["two Host headers", () => get("/v1/workspace", "host: y\r\n"), 400],
    ["an escape that is malformed", () => get("/v1/keys/%zz"), 400],
    ["an escape that is not UTF-8", () => get("/v1/keys/%ff"), 400],
    ["a malformed escape on no route", () => get("/%"), 400],
    ["a Host that makes no URL", () => get("/v1/keys/%41").replace("host: x", "host: x:99999"), 400],
    ["a target that makes no URL", () => get("http://[%41"), 404],
    ["an unusual method on a route", () => get("/v1/workspace").replace("GET", "PROPFIND"), 405],
    ["a method in lower case", () => get("/healthz").replace("GET", "get"), 400],
    ["HTTP/1.0 without Host", () => "GET /healthz HTTP/1.0\r\n\r\n", 200],
    [
      "a second credential after a bad one",
      () => get("/v1/workspace").replace("host", "authorization: Bearer krsk_live_x\r\nhost"),
      401,
    ],
    ["a second credential after a good one", () => get("/v1/workspace", "authorization: Bearer krsk_live_x\r\n"), 401],
    ["the same credential twice", () => get("/v1/workspace", auth().replace("host: x\r\n", "")), 401],
    [
      "a second media type",
      () => post("typed").replace("\r\n\r\n", "\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n"),
      415,
    ],
    ["CONNECT", () => "CONNECT x:443 HTTP/1.1\r\nhost: x:443\r\n\r\n", 405],
    ["a thousand parameters", () => get(`/v1/keys?${"a=1&".repeat(1000)}`), 400],
  ] as const) {
    it(`${why}: ${status}, with our headers and envelope`, async () => {
      const [response, ...more] = await raw(text());
      expect(more).toEqual([]);
      expect(response?.status, response?.body).toBe(status);
      expect(response?.head).toMatch(/request-id: [0-9a-f-]{36}/);
      expect(response?.head).toContain("x-content-type-options: nosniff");
      if (status >= 400)
        expect(JSON.parse(response?.body ?? "")).toMatchObject({ error: { code: expect.any(String) } });
    });
  }
});

describe("a forged Host", () => {
  it("reaches no link in a message", async () => {
    const email = freshEmail();
    const body = JSON.stringify({ email, password: PASSWORD });
    const head = `content-type: application/json\r\ncontent-length: ${body.length}\r\nconnection: close\r\n`;
    const forged = "host: evil.example\r\nx-forwarded-host: evil.example\r\n";
    const [response] = await raw(`POST /v1/auth/users HTTP/1.1\r\n${forged}${head}\r\n${body}`);
    expect(response?.status).toBe(202);
    const { link, text } = await lastMail(instance, email);
    expect(link?.startsWith(`${instance.url}/`)).toBe(true);
    expect(text).not.toContain("evil.example");
  });
});

describe("several requests on one connection", () => {
  it("get their responses in order", async () => {
    const responses = await raw(`GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n${post("in-order")}${get("/nowhere")}`);
    expect(responses.map(({ status }) => status)).toEqual([200, 201, 404]);
  });

  it("are each judged by their own credential", async () => {
    const other = await instance.workspace();
    const { sk_owner } = workspace.keys;
    const keys = [sk_owner, other.keys.sk_owner, null, `${sk_owner}x`, sk_owner];
    const request = (target: string, key: string | null): string =>
      `GET ${target} HTTP/1.1\r\nhost: x\r\n${key === null ? "" : `authorization: Bearer ${key}\r\n`}\r\n`;
    const read = (target: string): Promise<RawResponse[]> =>
      sendRaw(instance.url, keys.map((key) => request(target, key)).join(""), { count: keys.length });
    const workspaces = await read("/v1/workspace");
    expect(workspaces.map(({ body }) => JSON.parse(body).id)).toEqual([
      workspace.id,
      other.id,
      undefined,
      undefined,
      workspace.id,
    ]);
    expect(workspaces.map(({ status }) => status)).toEqual([200, 200, 401, 401, 200]);
    const polls = await read(`/v1/policy/delta?project_id=${workspace.project_id}&since=0`);
    expect(polls.map(({ status }) => status)).toEqual([200, 404, 401, 401, 200]);
  });

  for (const [why, second] of [
    ["has no Host", "GET /healthz HTTP/1.1\r\n\r\n"],
    ["is not HTTP", "NONSENSE\r\n\r\n"],
  ] as const) {
    it(`a mutation gets its own response when the request after it ${why}`, async () => {
      const responses = await raw(post(`before-${second.length}`) + second);
      expect(responses.map(({ status }) => status)).toEqual([201, 400]);
      expect(responses[1]?.head).toMatch(/connection: close/i);
    });
  }

  it("a malformed chunked body is refused at once", async () => {
    const responses = await raw(
      `POST /v1/tenants HTTP/1.1\r\n${auth()}content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n`,
    );
    expect(responses.map(({ status }) => status)).toEqual([400]);
  });
});

it("CONNECT is refused with the methods there are, and ends the connection", async () => {
  const [refused] = await raw(`CONNECT x:443 HTTP/1.1\r\nhost: x:443\r\n\r\n${get("/healthz")}`);
  expect(refused?.head).toMatch(/^allow: DELETE, GET, HEAD, OPTIONS, PATCH, POST\r$/im);
  expect(JSON.parse(refused?.body ?? "").error.code).toBe("method_not_allowed");
});

it("CONNECT behind a response that is being sent ends the connection, and the response with it", async () => {
  const closed = vi.spyOn(ServerResponse.prototype, "emit");
  const responses = await raw(
    `GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\nCONNECT x:443 HTTP/1.1\r\nhost: x:443\r\n\r\n`,
  );
  expect(responses.filter(({ status }) => status === 405)).toEqual([]);
  // A response of the test before may be closed only now.
  const isThis = (i: number): boolean => (closed.mock.contexts[i] as ServerResponse).req.url === "/openapi.json";
  await expect.poll(() => closed.mock.calls.filter(([event], i) => event === "close" && isThis(i)).length).toBe(1);
  closed.mockRestore();
});

it("what follows a malformed request, which closes the connection, is not parsed", async () => {
  const sheds = vi.spyOn(OverloadGuard.prototype, "sheds");
  const responses = await raw("GET /v1/workspace HTTP/1.1\r\n\r\n".repeat(500));
  expect([responses.map(({ status }) => status), sheds.mock.calls.length]).toEqual([[400], 1]);
  sheds.mockRestore();
});

it("an Upgrade that is ignored is answered and closes the connection: what follows it is not silently lost", async () => {
  const upgrade = "GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n";
  const [answer] = await raw(`${upgrade}GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n`);
  expect(answer?.status).toBe(200);
  expect(answer?.head).toMatch(/^connection: close\r$/im);
});

it("a page of a registered origin can read that the embed plane is overloaded, and another page cannot", async () => {
  await workspace.call("sk_owner", "PATCH /v1/workspace", { embed_origins: ["https://app.example.com"] });
  const overloaded = vi.spyOn(OverloadGuard.prototype, "shedding", "get").mockReturnValue(true);
  const headOf = async (path: string, origin: string): Promise<string> =>
    (await raw(get(path, `origin: ${origin}\r\n`)))[0]?.head ?? "";
  const allowed = await headOf("/v1/embed/session", "https://app.example.com");
  const foreign = await headOf("/v1/embed/session", "https://evil.example");
  const vendor = await headOf("/v1/workspace", "https://app.example.com");
  overloaded.mockRestore();
  expect(allowed).toMatch(/^HTTP\/1.1 503/);
  expect(allowed).toContain("access-control-allow-origin: https://app.example.com");
  for (const head of [foreign, vendor]) {
    expect(head).toMatch(/^HTTP\/1.1 503/);
    expect(head).not.toContain("access-control-allow-origin");
  }
});
