// The gateway as proxies call it: the content of each response, and what a client must not be able to achieve.
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { type GatewayMode, startGateway } from "../../src/gateway.ts";
import type { KeyrackOptions } from "../../src/sdk/options.ts";
import type { Keyrack } from "../../src/sdk/instance.ts";
import { INTERNALS, internalsOf } from "../../src/sdk/internals.ts";
import { SDK_VERSION } from "../../src/sdk/version.ts";
import { startProcess } from "../../harness/processes/server.ts";
import { refusedStart, tempDir } from "../../harness/processes/cli.ts";
import { FakeControlPlane } from "../../harness/sdk/control-plane.ts";
import { type TestKeyrack, startTestKeyrack } from "../../harness/sdk/test-keyrack.ts";

type CallOptions = { key?: string; headers?: Record<string, string>; method?: string };

async function startBehindProxy(mode: GatewayMode, options: Partial<KeyrackOptions> = {}, ready = true) {
  const instance: TestKeyrack = await startTestKeyrack({ options, ready });
  const gateway = await startGateway({ keyrack: instance.keyrack, mode, limits: "check", host: "127.0.0.1", port: 0 });
  const call = (path: string, { key, headers = {}, method = "GET" }: CallOptions = {}) =>
    fetch(gateway.url + path, { method, headers: { ...(key && { authorization: `Bearer ${key}` }), ...headers } });
  return {
    ...instance,
    plane: instance.plane,
    call,
    [Symbol.asyncDispose]: async () => {
      await gateway.stop();
      await instance[Symbol.asyncDispose]();
    },
  };
}

const RULE = { id: "one", limit: 1, window_ms: 60_000, algorithm: "fixed", scope: "key" } as const;

describe("forward mode", () => {
  it("200 identifies the key in five headers; unsafe characters in scopes are percent-encoded", async () => {
    await using g = await startBehindProxy("forward");
    const { key, id } = g.plane.mint({ scopes: ["orders:read", "two words", "100%", 'ü"\n'], env: "test" });
    await g.plane.feed.acknowledged(1);
    const response = await g.call("/verify", { key });
    expect(response.status).toBe(200);
    expect(Object.fromEntries([...response.headers].filter(([name]) => name.startsWith("x-keyrack-")))).toEqual({
      "x-keyrack-key-id": id,
      "x-keyrack-tenant-id": g.plane.tenantId,
      "x-keyrack-project-id": g.plane.projectId,
      "x-keyrack-env": "test",
      "x-keyrack-scopes": "orders:read two%20words 100%25 %C3%BC%22%0A",
    });
  });

  it("every denial has its own status and the library's body", async () => {
    await using g = await startBehindProxy("forward");
    const limited = g.plane.mint({ rate_limits: [RULE] }).key;
    const plain = g.plane.mint().key;
    await g.plane.feed.acknowledged(1);
    expect((await g.call("/verify", { key: limited })).headers.get("ratelimit")).toContain('"one";r=0');
    for (const [path, key, status, code] of [
      ["/verify", undefined, 401, "missing_key"],
      ["/verify", "kr_live_x", 401, "invalid_key"],
      ["/verify?scope=a&scope=b", plain, 403, "insufficient_scope"],
      ["/verify", limited, 429, "rate_limited"],
    ] as const) {
      const response = await g.call(path, key === undefined ? {} : { key });
      expect([response.status, await response.json()]).toMatchObject([status, { error: { code } }]);
      expect(response.headers.has("x-keyrack-status")).toBe(false);
      expect([...response.headers.keys()].filter((name) => name.startsWith("x-keyrack-"))).toEqual([]);
    }
  });

  it("reports the client's method and path, not its own", async () => {
    await using g = await startBehindProxy("forward");
    const { key } = g.plane.mint();
    await g.plane.feed.acknowledged(1);
    await g.call("/verify", { key, headers: { "x-forwarded-method": "PUT", "x-forwarded-uri": "/a?secret=1" } });
    await g.call("/verify", { key, headers: { "x-original-method": "PATCH", "x-original-uri": "/client" } });
    await g.call("/verify/c/d?x=1", { key, method: "DELETE" });
    await g.call("/verify?scope=no&path=/e?x=1", { key, method: "POST" });
    await g.keyrack.close();
    const reported = g.plane.ingest.events as { method: string; path: string; status: number }[];
    expect(reported.map(({ method, path, status }) => [method, path, status])).toEqual([
      ["PUT", "/a", 200],
      ["GET", "/", 200],
      ["DELETE", "/c/d", 200],
      ["POST", "/e", 403],
    ]);
  });

  it("reports what nginx sets, and no header that it passes on from the client", async () => {
    await using g = await startBehindProxy("nginx");
    const { key } = g.plane.mint();
    await g.plane.feed.acknowledged(1);
    const forged = { "x-forwarded-method": "PUT", "x-forwarded-uri": "/client" };
    await g.call("/verify", { key, headers: { ...forged, "x-original-method": "PATCH", "x-original-uri": "/b?x=1" } });
    await g.call("/verify", { key, headers: forged });
    await g.keyrack.close();
    const reported = g.plane.ingest.events as { method: string; path: string }[];
    expect(reported.map(({ method, path }) => [method, path])).toEqual([
      ["PATCH", "/b"],
      ["GET", "/"],
    ]);
  });
});

describe("a client", () => {
  it("can require more scopes by the path and query that Envoy appends, never fewer", async () => {
    await using g = await startBehindProxy("forward");
    const { key } = g.plane.mint({ scopes: ["b"] });
    await g.plane.feed.acknowledged(1);
    expect((await g.call("/verify?scope=a&path=/x?scope=b", { key })).status).toBe(403);
    expect((await g.call("/verify?scope=a&path=/x&scope=b", { key })).status).toBe(403);
    expect((await g.call("/verify?scope=b&path=/x&scope=", { key })).status).toBe(400);
    expect((await g.call(`/verify?scope=b${"&scope=b".repeat(64)}`, { key })).status).toBe(400);
    expect((await g.call("/verify?scope_any=a+b&scope=b&path=/x", { key })).status).toBe(200);
    expect((await g.call("/verify?scope_any=a+c&path=/x&scope_any=b", { key })).status).toBe(403);
    expect((await g.call("/verify?scope_any=b&path=/x&scope_any=a", { key })).status).toBe(403);
    for (const empty of ["scope_any=", "scope_any=b+", "scope_any=b&path=/x&scope_any="])
      expect((await g.call(`/verify?${empty}`, { key })).status, empty).toBe(400);
    expect((await g.call("/verify/../healthz", {})).status).not.toBe(200);
  });

  it("gets 403 in nginx mode where the proxy sends an empty scope, with the reason in headers", async () => {
    await using g = await startBehindProxy("nginx");
    const response = await g.call("/verify?scope=");
    expect([response.status, response.headers.get("x-keyrack-status")]).toEqual([403, "400"]);
    expect(response.headers.get("x-keyrack-error")).toContain("scope must not be empty.");
  });

  it("gets 200 from no other path, with or without a key", async () => {
    await using g = await startBehindProxy("forward");
    const { key } = g.plane.mint();
    await g.plane.feed.acknowledged(1);
    for (const path of ["/", "/healthz", "/verifying", "//verify", "/x?/verify", "/VERIFY"]) {
      for (const who of [{}, { key }]) expect((await g.call(path, who)).status, path).not.toBe(200);
    }
  });
});

describe("a key that is confined to networks", () => {
  const LIST = { allowed_cidrs: ["203.0.113.0/24", "127.0.0.0/8"], ip_mode: "enforce" as const };
  const statuses = async (options: Partial<KeyrackOptions>, ...forwarded: (string | undefined)[]) => {
    await using g = await startBehindProxy("forward", options);
    const { key } = g.plane.mint(LIST);
    await g.plane.feed.acknowledged(1);
    const seen: number[] = [];
    for (const header of forwarded)
      seen.push((await g.call("/verify", { key, ...(header && { headers: { "x-forwarded-for": header } }) })).status);
    return seen;
  };

  it("is refused without trusted proxies, whatever they say: the peer is not the client", async () => {
    expect(await statuses({}, undefined, "203.0.113.9")).toEqual([403, 403]);
    expect(await statuses({ trustedProxies: ["192.0.2.1"] }, undefined, "203.0.113.9")).toEqual([403, 403]);
  });

  it("is judged by the address that the trusted proxy saw, not by what the client wrote before it", async () => {
    const trustedProxies = ["127.0.0.1"];
    expect(
      await statuses({ trustedProxies }, "203.0.113.9", "203.0.113.9, 198.51.100.1", "x, 203.0.113.9", "", undefined),
    ).toEqual([200, 403, 200, 403, 403]);
  });
});

it("a response that cannot be written is a 503, and the gateway continues", async () => {
  const instance = await startTestKeyrack({});
  const admit = async () => ({ context: { scopes: [] }, headers: { "x-bad": "a\nb" }, denial: null, done: () => {} });
  const broken = {
    ...instance.keyrack,
    [INTERNALS]: { ...internalsOf(instance.keyrack), guard: () => ({ admit }) },
  } as unknown as Keyrack;
  const gateway = await startGateway({ keyrack: broken, mode: "forward", limits: "off", host: "127.0.0.1", port: 0 });
  try {
    for (let i = 0; i < 2; i++) expect((await fetch(`${gateway.url}/verify`)).status).toBe(503);
  } finally {
    await gateway.stop();
    await instance[Symbol.asyncDispose]();
  }
});

describe("nginx mode", () => {
  it("429 and 503 become 403 with the real status and the body in ASCII headers", async () => {
    await using g = await startBehindProxy("nginx");
    const { key } = g.plane.mint({ rate_limits: [RULE] });
    await g.plane.feed.acknowledged(1);
    await g.call("/verify", { key });
    const limited = await g.call("/verify", { key });
    expect([limited.status, limited.headers.get("x-keyrack-status")]).toEqual([403, "429"]);
    expect(Number(limited.headers.get("retry-after"))).toBeGreaterThan(0);
    const lacking = await g.call("/verify?scope=%C3%BC", { key });
    expect([lacking.status, lacking.headers.get("x-keyrack-status")]).toEqual([403, "403"]);
    const error = lacking.headers.get("x-keyrack-error") ?? "";
    expect(error).toMatch(/^[\x20-\x7e]+$/);
    expect(JSON.parse(error)).toMatchObject({ error: { missing_scopes: ["ü"] } });
    expect((await g.call("/verify")).status).toBe(401);
  });

  it("responds 503 without a policy, and so does its health check", async () => {
    await using g = await startBehindProxy("nginx", { url: "http://127.0.0.1:1" }, false);
    const { key } = g.plane.mint();
    const response = await g.call("/verify", { key });
    expect([response.status, response.headers.get("x-keyrack-status")]).toEqual([403, "503"]);
    expect(response.headers.get("retry-after")).toBe("1");
    expect((await g.call("/healthz")).status).toBe(503);
  });

  it("fail-open admits, and overwrites every identity header of a client", async () => {
    await using g = await startBehindProxy("nginx", { url: "http://127.0.0.1:1", failMode: "open" }, false);
    const response = await g.call("/verify", { key: g.plane.mint().key });
    expect(response.status).toBe(200);
    expect(response.headers.get("x-keyrack-tenant-id")).toBe("");
    expect(response.headers.get("x-keyrack-key-id")).toBe("");
    expect(response.headers.get("x-keyrack-scopes")).toBe("");
  });
});

describe("keyrack gateway", () => {
  it("runs until it is stopped, then reports to the server that it leaves and exits with 0", async () => {
    await using plane = await FakeControlPlane.start();
    const { key } = plane.mint({ allowed_cidrs: ["203.0.113.0/24"], ip_mode: "enforce" });
    const args = ["gateway", "--json", "--port", "0", "--url", plane.url, "--project-id", plane.projectId];
    const flags = ["--trusted-proxies", "10.0.0.0/8, 127.0.0.1", "--key-prefixes", "kr,acme"];
    const gateway = await startProcess([...args, ...flags], { KEYRACK_SECRET_KEY: plane.secretKey });
    expect(Object.keys(gateway.ready)).toEqual(["event", "url", "mode", "pid"]);
    expect((await fetch(`${gateway.ready.url}/healthz`)).status).toBe(204);
    const headers = { "x-api-key": key, "x-forwarded-for": "198.51.100.1, 203.0.113.9" };
    expect((await fetch(`${gateway.ready.url}/verify`, { headers })).status).toBe(200);
    for (let i = 0; i < 2; i++) expect((await fetch(`${gateway.ready.url}/verify?scope=`)).status).toBe(400);
    expect(await gateway.end("SIGTERM")).toBe(0);
    expect(plane.ingest.events.length).toBe(1);
    expect(plane.feed.nodes.size).toBe(0);
    expect(gateway.stderr()).not.toContain(key);
    expect(gateway.stderr().match(/check the proxy's configuration/g)).toHaveLength(1);
  });

  // At the same time, because each waits for a policy at first.
  it.concurrent.each([
    ["closed", "requests are refused"],
    ["open", "requests are admitted without verification"],
  ])("says without a policy what --fail-mode %s does", async (mode, says) => {
    await using plane = await FakeControlPlane.start();
    const args = ["gateway", "--json", "--port", "0", "--url", "http://127.0.0.1:1", "--project-id", plane.projectId];
    const gateway = await startProcess([...args, "--fail-mode", mode], { KEYRACK_SECRET_KEY: plane.secretKey });
    expect(gateway.stderr()).toContain(`no policy yet: ${says} until the server can be reached`);
    expect(await gateway.end("SIGTERM")).toBe(0);
  });

  it("names itself in every call, so that the fleet view distinguishes gateways from libraries", async () => {
    await using plane = await FakeControlPlane.start();
    const { key } = plane.mint();
    const args = ["gateway", "--json", "--port", "0", "--url", plane.url, "--project-id", plane.projectId];
    const gateway = await startProcess(args, { KEYRACK_SECRET_KEY: plane.secretKey });
    await fetch(`${gateway.ready.url}/verify`, { headers: { "x-api-key": key } });
    expect(await gateway.end("SIGTERM")).toBe(0);
    const names = new Set(plane.seen.map(({ headers }) => headers["keyrack-sdk"]));
    expect([...names]).toEqual([`keyrack-gateway/${SDK_VERSION}`]);
    const batch = plane.seen.find(({ path }) => path === "/v1/ingest/batch")?.body ?? "{}";
    expect(JSON.parse(batch)).toMatchObject({ sdk: { name: "keyrack-gateway", version: SDK_VERSION } });
  });

  it("stops although a proxy holds connections open, including one with an incomplete request", async () => {
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

  it("exits with 2 on wrong usage and 1 on a port in use or a rejected credential, each with one sentence", async () => {
    using temp = tempDir();
    await using plane = await FakeControlPlane.start();
    const other = await FakeControlPlane.start();
    const good = ["--url", plane.url, "--secret-key", plane.secretKey, "--project-id", plane.projectId, "--port", "0"];
    for (const [args, code, says] of [
      [["--url", plane.url, "--secret-key", plane.secretKey], 2, "KEYRACK_PROJECT_ID"],
      [["--url", plane.url, "--project-id", plane.projectId], 2, "No credential"],
      [[...good, "--mode", "caddy"], 2, "argument 'caddy' is invalid. Allowed choices are forward, nginx."],
      [[...good, "--port", "65536"], 2, "--port"],
      [[...good, "--stale-ms", "1h"], 2, "--stale-ms must be a whole number."],
      [[...good, "--sample-rate", "7"], 2, "--sample-rate must be 0.0001 to 1."],
      [[...good, "--trusted-proxies", "10.0.0.1/8"], 2, "--trusted-proxies"],
      [[...good, "--key-prefixes", "Acme"], 2, "keyrack: --key-prefixes"],
      [[...good, "--host", "192.0.2.1"], 2, "Cannot listen on 192.0.2.1"],
      [[...good, "--port", new URL(plane.url).port], 1, "is already in use. Stop the other program, or set --port."],
      [[...good, "--secret-key", other.secretKey], 1, "the secret key is not accepted"],
    ] as const) {
      const ran = await refusedStart(["gateway", ...args], { HOME: temp.dir }, temp.dir);
      expect([ran.code, ran.stdout], ran.stderr).toEqual([code, ""]);
      expect(ran.stderr).toContain(says);
      expect(ran.stderr).not.toContain(plane.secretKey);
    }
    await other[Symbol.asyncDispose]();
  });
});
