// verify(): every verdict and its exact shape; only a valid key is admitted.

import { randomBytes } from "node:crypto";
import { describe, expect, it } from "vitest";
import { formatApiKey, formatCredential } from "../../src/kernel/credentials.ts";
import { createKeyrack, type KeyrackOptions } from "../../src/sdk/index.ts";
import { internalsOf } from "../../src/sdk/internals.ts";
import { FakeControlPlane } from "../../harness/sdk/control-plane.ts";
import { ManualPorts } from "../../harness/sdk/ports.ts";
import { startTestKeyrack } from "../../harness/sdk/test-keyrack.ts";

const mint = (env: "live" | "test" = "live") => formatCredential("api_key", env, randomBytes(24));
const INVALID = { ok: false, code: "invalid_key", status: 401, message: "Invalid API key." };

describe("verify", () => {
  it("admits a valid key with exactly the documented context", async () => {
    await using plane = await FakeControlPlane.start();
    const expires_at = "2031-01-01T00:00:00.000Z";
    const { key, id } = plane.mint({ scopes: ["orders:read", "orders:write"], expires_at });
    const resources = { live: { db: "live db" }, test: { db: "test db" } };
    await using instance = await startTestKeyrack({ plane, options: { resources } });
    const verdict = instance.keyrack.verify(key, { scopes: ["orders:read"] });
    if (!verdict.ok) throw new Error(verdict.code);
    const { scopes, ...others } = verdict.context;
    expect(others).toEqual({
      keyId: id,
      workspaceId: plane.workspaceId,
      projectId: plane.projectId,
      tenantId: plane.tenantId,
      env: "live",
      displayPrefix: key.slice(0, 14),
      expiresAt: Date.parse(expires_at),
      degraded: false,
      verified: true,
      rateLimit: [],
      resources: { db: "live db" },
    });
    expect([scopes.has("orders:write"), scopes.has("admin"), [...scopes]]).toEqual([
      true,
      false,
      ["orders:read", "orders:write"],
    ]);
  });

  it("requires all of a list, and one of `any`, and names what is missing in that order", async () => {
    await using plane = await FakeControlPlane.start();
    const { key } = plane.mint({ scopes: ["a", "b"] });
    await using instance = await startTestKeyrack({ plane });
    const missing = (scopes: unknown): readonly string[] | undefined => {
      const verdict = instance.keyrack.verify(key, { scopes: scopes as never });
      return verdict.ok ? [] : verdict.missing;
    };
    expect(missing({ all: ["a", "b"] })).toEqual([]);
    expect(missing({ any: ["x", "b"] })).toEqual([]);
    expect(missing({ all: ["a"], any: ["y", "a"] })).toEqual([]);
    expect(missing({ any: ["x", "y"] })).toEqual(["x", "y"]);
    expect(missing({ all: ["z", "a"], any: ["x", "y"] })).toEqual(["z", "x", "y"]);
    expect(missing({ all: ["z"], any: ["a"] })).toEqual(["z"]);
    for (const wrong of [{}, { any: [] }, { any: "a" }, { all: [""] }, { one: ["a"] }, { any: ["a"], anyOf: ["b"] }])
      expect(() => missing(wrong), JSON.stringify(wrong)).toThrow(TypeError);
    const expired = plane.mint({ expires_at: "2020-01-01T00:00:00.000Z" });
    expect(instance.keyrack.verify(expired.key, { scopes: { any: ["x"] } })).toMatchObject({ ok: false });
    const guard = internalsOf(instance.keyrack).guard({ scopes: { all: ["a"], any: ["x", "y"] } });
    const incoming = { method: "GET", path: "/", authorization: `Bearer ${key}`, apiKey: null };
    const { denial } = await guard.admit({}, incoming);
    expect([denial?.status, JSON.parse(denial?.body ?? "").error.missing_scopes]).toEqual([403, ["x", "y"]]);
    expect(denial?.headers["www-authenticate"]).toContain('scope="a x y"');
  });

  it("returns each denial with its own code, status and message", async () => {
    await using plane = await FakeControlPlane.start();
    const { key } = plane.mint({ scopes: ["a"] });
    const gone = plane.mint({ expires_at: "2020-01-01T00:00:00.000Z" }).key;
    const revoked = plane.mint().key;
    plane.revoke(revoked);
    await using instance = await startTestKeyrack({ plane });
    const { verify } = instance.keyrack;
    expect(verify(key, { scopes: ["a", "b"] })).toEqual({
      ok: false,
      code: "insufficient_scope",
      status: 403,
      message: "The API key lacks a required scope.",
      missing: ["b"],
    });
    expect(verify(gone)).toEqual({ ok: false, code: "expired_key", status: 401, message: "This API key has expired." });
    for (const missing of [null, undefined, ""])
      expect(verify(missing)).toMatchObject({ code: "missing_key", status: 401 });
    const bad = [
      revoked,
      mint(),
      "kr_live_",
      `${key} `,
      key.toUpperCase(),
      instance.plane.secretKey,
      7,
      {},
      [key],
      true,
      Symbol("k"),
    ];
    for (const text of bad) expect(verify(text)).toEqual(INVALID);
  });

  it("logs the reason at debug level only, and never the key", async () => {
    await using plane = await FakeControlPlane.start();
    const other = plane.mint({ env: "test" }).key;
    await using instance = await startTestKeyrack({ plane, options: { env: "live" } });
    expect(instance.keyrack.verify(other)).toEqual(INVALID);
    expect(instance.lines.at(-1)).toEqual({
      level: "debug",
      message: "a key was rejected",
      fields: { why: "other_env", display_prefix: other.slice(0, 14) },
    });
    expect(JSON.stringify(instance.lines)).not.toContain(other.slice(0, 20));
  });

  it("admits one environment where configured, and the key's own otherwise", async () => {
    await using plane = await FakeControlPlane.start();
    const [live, test] = [plane.mint().key, plane.mint({ env: "test" }).key];
    await using both = await startTestKeyrack({ plane });
    expect([both.keyrack.verify(live), both.keyrack.verify(test)]).toMatchObject([
      { context: { env: "live" } },
      { context: { env: "test" } },
    ]);
    await using only = await startTestKeyrack({ plane, options: { env: "test" } });
    expect(only.keyrack.verify(live)).toEqual(INVALID);
    expect(only.keyrack.verify(test)).toMatchObject({ ok: true });
  });

  it("rejects an expired key to the millisecond, without a timer", async () => {
    await using plane = await FakeControlPlane.start();
    const ports = new ManualPorts();
    const { key } = plane.mint({ expires_at: new Date(ports.wall + 5000).toISOString() });
    await using instance = await startTestKeyrack({ plane, ports });
    ports.setWall(4999);
    expect(instance.keyrack.verify(key).ok).toBe(true);
    ports.setWall(1);
    expect(instance.keyrack.verify(key)).toMatchObject({ code: "expired_key" });
  });
});

describe("without a policy", () => {
  const down = { url: "http://127.0.0.1:9", secretKey: formatCredential("secret_key", "live", randomBytes(24)) };
  const options = { ...down, projectId: "0190163d-8694-739b-aea5-966c26f8ad91" };

  it("fails closed by default, and still rejects a malformed key", async () => {
    await using keyrack = disposable(options);
    expect(keyrack.verify(mint())).toMatchObject({ code: "unavailable", status: 503 });
    expect(keyrack.verify("nonsense")).toEqual(INVALID);
    expect(keyrack.verify(null)).toMatchObject({ code: "missing_key" });
  });

  it("takes for a key only what begins with one of keyPrefixes, `kr` by default", async () => {
    const acme = formatApiKey("acme", "live", randomBytes(24));
    const codes = async (more: Partial<KeyrackOptions>) => {
      await using keyrack = disposable({ ...options, ...more });
      return [acme, mint()].map((key) => (keyrack.verify(key) as { code?: string }).code);
    };
    expect(await codes({})).toEqual(["invalid_key", "unavailable"]);
    expect(await codes({ keyPrefixes: ["acme"] })).toEqual(["unavailable", "invalid_key"]);
    expect(await codes({ keyPrefixes: ["kr", "acme"] })).toEqual(["unavailable", "unavailable"]);
    for (const keyPrefixes of [[], ["kr", "kr"], ["Acme"], ["a_b"], "kr"])
      await expect(codes({ keyPrefixes: keyPrefixes as string[] })).rejects.toThrow(/keyPrefixes/);
  });

  it("fails open only where configured: unverified, no tenant, no scopes, and never for a malformed key", async () => {
    await using keyrack = disposable({ ...options, failMode: "open", env: "live" });
    const key = mint();
    const verdict = keyrack.verify(key, { scopes: ["money:move"] });
    expect(verdict).toMatchObject({
      ok: true,
      context: {
        keyId: null,
        workspaceId: null,
        tenantId: null,
        env: "live",
        verified: false,
        degraded: true,
        rateLimit: null,
        expiresAt: null,
        displayPrefix: key.slice(0, 14),
      },
    });
    expect(verdict.ok && [...verdict.context.scopes]).toEqual([]);
    expect(keyrack.verify(`${key.slice(0, -1)}~`)).toEqual(INVALID);
    expect(keyrack.verify(mint("test"))).toEqual(INVALID);
    expect(keyrack.verify(key, { failMode: "closed" })).toMatchObject({ code: "unavailable" });
  });

  it("never fails open for an unknown key once a policy was loaded, however stale", async () => {
    await using plane = await FakeControlPlane.start();
    const ports = new ManualPorts();
    const { key } = plane.mint();
    await using instance = await startTestKeyrack({ plane, ports, options: { failMode: "open" } });
    await plane.down();
    ports.setWall(3_600_000);
    expect(instance.keyrack.verify(mint())).toEqual(INVALID);
    expect(instance.keyrack.verify(key)).toMatchObject({ ok: true, context: { degraded: true, verified: true } });
    // Past maxStaleMs the policy admits no key by itself, and still rejects unknown keys.
    ports.setWall(90_000_000);
    expect(instance.keyrack.status().version).toBe(null);
    expect(instance.keyrack.verify(mint())).toEqual(INVALID);
    expect(instance.keyrack.verify(key)).toMatchObject({ ok: true, context: { tenantId: null, verified: false } });
    expect(instance.keyrack.verify(key, { failMode: "closed" })).toMatchObject({ ok: false, code: "unavailable" });
    await plane.up();
  });
});

describe("createKeyrack", () => {
  const RESPONSE = { status: 200, durationMs: 1, route: undefined };
  const good = { ...base(), projectId: "0190163d-8694-739b-aea5-966c26f8ad91" };
  const bad: [string, object, RegExp][] = [
    ["no options", undefined as never, /takes an object of options/],
    ["an unset environment, naming url first", { url: undefined, secretKey: undefined }, /url is not set/],
    ["an empty secret key", { ...good, secretKey: "" }, /secretKey is not set/],
    ["a secret key with a line break", { ...good, secretKey: `${good.secretKey}\n` }, /line breaks around it: trim it/],
    ["a secret key cut off", { ...good, secretKey: good.secretKey.slice(0, -3) }, /cut off: its checksum is wrong/],
    ["a number as secret key", { ...good, secretKey: 5 as never }, /must be a krsk_ secret key/],
    ["an unset project", { ...good, projectId: undefined as never }, /projectId is not set/],
    ["an empty cacheFile", { ...good, cacheFile: "" }, /cacheFile must be a path/],
    ["an object as log", { ...good, log: console }, /log must be a function/],
    ["a url of another scheme", { ...good, url: "ftp://x" }, /url must be/],
    ["a url with a password", { ...good, url: "http://a:b@x" }, /user name or password/],
    ["a customer's key as secret key", { ...good, secretKey: mint() }, /secretKey must be a krsk_ secret key/],
    ["no project", { ...good, projectId: "p" }, /projectId must be a UUID/],
    ["a third environment", { ...good, env: "dev" }, /env must be/],
    ["live with a test secret key", { ...good, ...base("test"), env: "live" }, /cannot serve/],
    ["a misspelled fail mode", { ...good, failMode: "opened" }, /failMode/],
    ["a misspelled option", { ...good, stalMs: 5 }, /no option "stalMs"/],
    ["a sample rate of zero", { ...good, sampleRate: 0 }, /sampleRate/],
    ["a node id with a space", { ...good, nodeId: "a b" }, /nodeId/],
    ["a number as node id", { ...good, nodeId: 1234 as unknown as string }, /nodeId/],
    ["misspelled resources", { ...good, resources: { live: 1, tets: 2 } }, /resources must be an object with/],
    ["a number as resources", { ...good, resources: 5 }, /resources must be/],
    ["a number as otel", { ...good, otel: 5 as never }, /otel must be the OpenTelemetry API/],
    ["maxStaleMs under staleMs", { ...good, maxStaleMs: 20_000 }, /maxStaleMs/],
  ];
  for (const [why, options, message] of bad) {
    it(`throws at once on ${why}`, () => expect(() => createKeyrack(options as KeyrackOptions)).toThrow(message));
  }

  it("names no part of a wrong secret key", () => {
    const { secretKey } = good;
    for (const wrong of [`${secretKey} `, secretKey.slice(0, -1), mint()])
      expect(() => createKeyrack({ ...good, secretKey: wrong })).toThrow(/^(?!.*_(live|test)_)/);
  });

  it("takes undefined for an option, as an unset variable gives it", async () => {
    await using keyrack = disposable({ ...good, cacheFile: undefined, env: undefined, failMode: undefined });
    const verdict = keyrack.verify(mint(), { scopes: undefined, failMode: undefined, ip: undefined });
    keyrack.report({ context: undefined, tags: undefined, cost: undefined, method: "GET", path: "/", ...RESPONSE });
    expect(verdict).toMatchObject({ ok: false, code: "unavailable" });
  });

  it("warns once when the secret key would be sent unencrypted, except to the same machine", async () => {
    for (const [url, warned] of [
      ["http://keyrack.example:4747", true],
      ["https://keyrack.example", false],
      ["http://127.0.0.1:9", false],
      ["http://[::1]:9", false],
    ] as const) {
      const lines: string[] = [];
      await using keyrack = disposable({ ...good, url, log: (_level, message) => void lines.push(message) });
      expect([keyrack.status().version, lines.some((line) => line.includes("unencrypted"))]).toEqual([null, warned]);
    }
  });

  it("throws on wrong options of verify", async () => {
    await using keyrack = disposable(good);
    expect(() => keyrack.verify(mint(), { scopes: "admin" as never })).toThrow(/scopes/);
    expect(() => keyrack.verify(mint(), { failMode: "maybe" as never })).toThrow(/failMode/);
    expect(() => keyrack.verify(mint(), { scopes: null as never })).toThrow(/scopes/);
    expect(() => keyrack.verify(mint(), { scope: ["admin"] } as never)).toThrow(/"scope"/);
    for (const wrong of [[undefined], ["admin", 5]])
      expect(() => keyrack.verify(mint(), { scopes: wrong as never })).toThrow("scopes must be a list of texts");
  });

  it("admits only test keys with a test secret key", async () => {
    await using plane = await FakeControlPlane.start();
    const { key } = plane.mint({ env: "test" });
    Object.assign(plane, { secretKey: base("test").secretKey });
    await using instance = await startTestKeyrack({ plane });
    expect(instance.keyrack.verify(key).ok).toBe(true);
    expect(plane.seen[0]?.query.get("env")).toBe("test");
  });
});

function base(env: "live" | "test" = "live") {
  return { url: "http://127.0.0.1:9", secretKey: formatCredential("secret_key", env, randomBytes(24)) };
}

function disposable(options: KeyrackOptions) {
  const keyrack = createKeyrack(options);
  return Object.assign(keyrack, { [Symbol.asyncDispose]: () => keyrack.close() });
}
