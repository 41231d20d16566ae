// The gateway asked the way proxies ask it: what each answer holds, and what a client must not be able to bring about.
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { type GatewayMode, startGateway } from "../../src/gateway.ts";
import type { KeyrackOptions } from "../../src/sdk/options.ts";
import { type Keyrack, INTERNALS } from "../../src/sdk/internals.ts";
import { startProcess } from "../../harness/processes/server.ts";
import { keyrack as run, tempDir } from "../../harness/processes/cli.ts";
import { FakeControlPlane } from "../../harness/sdk/control-plane.ts";
import { type TestKeyrack, startTestKeyrack } from "../../harness/sdk/test-keyrack.ts";

type Asked = { key?: string; headers?: Record<string, string>; method?: string };

async function behind(mode: GatewayMode, options: Partial<KeyrackOptions> = {}, ready = true) {
  const r: TestKeyrack = await startTestKeyrack({ options, ready });
  const gateway = await startGateway({ keyrack: r.keyrack, mode, limits: "check", host: "127.0.0.1", port: 0 });
  const ask = (path: string, { key, headers = {}, method = "GET" }: Asked = {}) =>
    fetch(gateway.url + path, { method, headers: { ...(key && { authorization: `Bearer ${key}` }), ...headers } });
  return {
    ...r,
    plane: r.plane,
    ask,
    [Symbol.asyncDispose]: async () => {
      await gateway.stop();
      await r[Symbol.asyncDispose]();
    },
  };
}

const RULE = { id: "one", limit: 1, window_ms: 60_000, algorithm: "fixed", scope: "key" } as const;

describe("forward mode", () => {
  it("200 names the key in five headers; scopes that are no plain word are percent-encoded", async () => {
    await using g = await behind("forward");
    const { key, id } = g.plane.mint({ scopes: ["orders:read", "two words", "100%", 'ü"\n'], env: "test" });
    await g.plane.feed.acknowledged(1);
    const answer = await g.ask("/verify", { key });
    expect(answer.status).toBe(200);
    expect(Object.fromEntries([...answer.headers].filter(([name]) => name.startsWith("x-keyrack-")))).toEqual({
      "x-keyrack-key-id": id,
      "x-keyrack-tenant-id": g.plane.tenantId,
      "x-keyrack-project-id": g.plane.projectId,
      "x-keyrack-env": "test",
      "x-keyrack-scopes": "orders:read two%20words 100%25 %C3%BC%22%0A",
    });
  });

  it("every refusal has its own status and the library's body", async () => {
    await using g = await behind("forward");
    const limited = g.plane.mint({ rate_limits: [RULE] }).key;
    const plain = g.plane.mint().key;
    await g.plane.feed.acknowledged(1);
    expect((await g.ask("/verify", { key: limited })).headers.get("ratelimit")).toContain('"one";r=0');
    for (const [path, key, status, code] of [
      ["/verify", undefined, 401, "missing_key"],
      ["/verify", "kr_live_x", 401, "invalid_key"],
      ["/verify?scope=a&scope=b", plain, 403, "insufficient_scope"],
      ["/verify", limited, 429, "rate_limited"],
    ] as const) {
      const answer = await g.ask(path, key === undefined ? {} : { key });
      expect([answer.status, await answer.json()]).toMatchObject([status, { error: { code } }]);
      expect(answer.headers.has("x-keyrack-status")).toBe(false);
      expect([...answer.headers.keys()].filter((name) => name.startsWith("x-keyrack-"))).toEqual([]);
    }
  });

  it("reports the client's method and path, not ours", async () => {
    await using g = await behind("forward");
    const { key } = g.plane.mint();
    await g.plane.feed.acknowledged(1);
    await g.ask("/verify", { key, headers: { "x-forwarded-method": "PUT", "x-forwarded-uri": "/a?secret=1" } });
    await g.ask("/verify", { key, headers: { "x-original-method": "PATCH", "x-original-uri": "/b" } });
    await g.ask("/verify/c/d?x=1", { key, method: "DELETE" });
    await g.ask("/verify?scope=no&path=/e?x=1", { key, method: "POST" });
    await g.keyrack.close();
    const told = g.plane.ingest.events as { method: string; path: string; status: number }[];
    expect(told.map(({ method, path, status }) => [method, path, status])).toEqual([
      ["PUT", "/a", 200],
      ["PATCH", "/b", 200],
      ["DELETE", "/c/d", 200],
      ["POST", "/e", 403],
    ]);
  });
});

describe("what a client cannot bring about", () => {
  it("Envoy appends their path and query: they can ask for more scopes, never for fewer", async () => {
    await using g = await behind("forward");
    const { key } = g.plane.mint({ scopes: ["b"] });
    await g.plane.feed.acknowledged(1);
    expect((await g.ask("/verify?scope=a&path=/x?scope=b", { key })).status).toBe(403);
    expect((await g.ask("/verify?scope=a&path=/x&scope=b", { key })).status).toBe(403);
    expect((await g.ask("/verify?scope=b&path=/x&scope=", { key })).status).toBe(400);
    expect((await g.ask(`/verify?scope=b${"&scope=b".repeat(64)}`, { key })).status).toBe(400);
    expect((await g.ask("/verify/../healthz", {})).status).not.toBe(200);
  });

  it("no other path answers 200, with a key or without", async () => {
    await using g = await behind("forward");
    const { key } = g.plane.mint();
    await g.plane.feed.acknowledged(1);
    for (const path of ["/", "/healthz", "/verifying", "//verify", "/x?/verify", "/VERIFY"]) {
      for (const who of [{}, { key }]) expect((await g.ask(path, who)).status, path).not.toBe(200);
    }
  });
});

it("an answer that cannot be written is a 503, and the gateway lives on", async () => {
  const r = await startTestKeyrack({});
  const admit = async () => ({ context: { scopes: [] }, headers: { "x-bad": "a\nb" }, denial: null, done: () => {} });
  const broken = { ...r.keyrack, [INTERNALS]: { guard: () => ({ admit }) } } as unknown as Keyrack;
  const gateway = await startGateway({ keyrack: broken, mode: "forward", limits: "off", host: "127.0.0.1", port: 0 });
  try {
    for (let i = 0; i < 2; i++) expect((await fetch(`${gateway.url}/verify`)).status).toBe(503);
  } finally {
    await gateway.stop();
    await r[Symbol.asyncDispose]();
  }
});

describe("nginx mode", () => {
  it("429 and 503 go out as 403 that says what it is, with the whole body in ASCII", async () => {
    await using g = await behind("nginx");
    const { key } = g.plane.mint({ rate_limits: [RULE] });
    await g.plane.feed.acknowledged(1);
    await g.ask("/verify", { key });
    const limited = await g.ask("/verify", { key });
    expect([limited.status, limited.headers.get("x-keyrack-status")]).toEqual([403, "429"]);
    expect(Number(limited.headers.get("retry-after"))).toBeGreaterThan(0);
    const lacking = await g.ask("/verify?scope=%C3%BC", { key });
    expect([lacking.status, lacking.headers.get("x-keyrack-status")]).toEqual([403, "403"]);
    const error = lacking.headers.get("x-keyrack-error") ?? "";
    expect(error).toMatch(/^[\x20-\x7e]+$/);
    expect(JSON.parse(error)).toMatchObject({ error: { missing_scopes: ["ü"] } });
    expect((await g.ask("/verify")).status).toBe(401);
  });

  it("503 without a policy, and its health says so too", async () => {
    await using g = await behind("nginx", { url: "http://127.0.0.1:1" }, false);
    const { key } = g.plane.mint();
    const answer = await g.ask("/verify", { key });
    expect([answer.status, answer.headers.get("x-keyrack-status")]).toEqual([403, "503"]);
    expect(answer.headers.get("retry-after")).toBe("1");
    expect((await g.ask("/healthz")).status).toBe(503);
  });

  it("fail-open admits, and leaves no header for a client's own to survive in", async () => {
    await using g = await behind("nginx", { url: "http://127.0.0.1:1", failMode: "open" }, false);
    const answer = await g.ask("/verify", { key: g.plane.mint().key });
    expect(answer.status).toBe(200);
    expect(answer.headers.get("x-keyrack-tenant-id")).toBe("");
    expect(answer.headers.get("x-keyrack-key-id")).toBe("");
    expect(answer.headers.get("x-keyrack-scopes")).toBe("");
  });
});

describe("keyrack gateway", () => {
  it("runs until it is told to end, then says goodbye to the server and exits with 0", async () => {
    await using plane = await FakeControlPlane.start();
    const { key } = plane.mint();
    const args = ["gateway", "--json", "--port", "0", "--url", plane.url, "--project-id", plane.projectId];
    const gateway = await startProcess(args, { KEYRACK_SECRET_KEY: plane.secretKey });
    expect(Object.keys(gateway.ready)).toEqual(["event", "url", "mode", "pid"]);
    expect((await fetch(`${gateway.ready.url}/healthz`)).status).toBe(204);
    expect((await fetch(`${gateway.ready.url}/verify`, { headers: { "x-api-key": key } })).status).toBe(200);
    expect(await gateway.end("SIGTERM")).toBe(0);
    expect(plane.ingest.events.length).toBe(1);
    expect(plane.feed.nodes.size).toBe(0);
    expect(gateway.stderr()).not.toContain(key);
  });

  it("ends although a proxy holds connections open, also one on which nothing was ever asked in full", async () => {
    await using plane = await FakeControlPlane.start();
    const args = ["gateway", "--json", "--port", "0", "--url", plane.url, "--project-id", plane.projectId];
    const gateway = await startProcess(args, { KEYRACK_SECRET_KEY: plane.secretKey });
    const { port } = new URL(gateway.ready.url);
    const sockets = ["GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n", "GET /verify HTTP/1.1\r\n"].map((text) => {
      const socket = connect(Number(port), "127.0.0.1").on("error", () => {});
      socket.write(text);
      return socket;
    });
    await once(sockets[0] as Socket, "data");
    expect(await gateway.end("SIGTERM")).toBe(0);
    for (const socket of sockets) socket.destroy();
  });

  it("wrong usage is 2 and a refused credential is 1, each in one sentence", async () => {
    using temp = tempDir();
    await using plane = await FakeControlPlane.start();
    const other = await FakeControlPlane.start();
    const good = ["--url", plane.url, "--secret-key", plane.secretKey, "--project-id", plane.projectId, "--port", "0"];
    for (const [args, code, says] of [
      [["--url", plane.url, "--secret-key", plane.secretKey], 2, "KEYRACK_PROJECT_ID"],
      [["--url", plane.url, "--project-id", plane.projectId], 2, "No credential"],
      [[...good, "--mode", "caddy"], 2, "--mode must be forward or nginx."],
      [[...good, "--port", "65536"], 2, "--port"],
      [[...good, "--stale-ms", "1h"], 2, "--stale-ms must be a whole number."],
      [[...good, "--sample-rate", "7"], 2, "sampleRate must be 0.0001 to 1."],
      [[...good, "--host", "192.0.2.1"], 2, "Cannot listen on 192.0.2.1"],
      [[...good, "--secret-key", other.secretKey], 1, "the secret key is not accepted"],
    ] as const) {
      const ran = await run(["gateway", ...args], { cwd: temp.dir, env: { HOME: temp.dir } });
      expect([ran.code, ran.stdout], ran.stderr).toEqual([code, ""]);
      expect(ran.stderr).toContain(says);
      expect(ran.stderr).not.toContain(plane.secretKey);
    }
    await other[Symbol.asyncDispose]();
  });
});
