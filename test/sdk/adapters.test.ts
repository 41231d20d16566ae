// One suite for every framework, over a socket: the same requests get the same responses from express, fastify, hono,
// h3, plain node:http and fetch.

import { once } from "node:events";
import { request } from "node:http";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type App, apps } from "../../harness/sdk/apps.ts";
import { until } from "../../harness/waiting.ts";
import { startTestKeyrack, type TestKeyrack } from "../../harness/sdk/test-keyrack.ts";

const rule = { id: "per-minute", limit: 2, window_ms: 60_000, algorithm: "sliding" as const, scope: "key" as const };
const AUTH = 'Bearer realm="keyrack"';

for (const [name, make] of Object.entries(apps)) {
  describe(`protect on ${name}`, () => {
    let instance: TestKeyrack;
    let app: App;
    beforeEach(async () => {
      instance = await startTestKeyrack();
      app = await make(instance.keyrack, async () => ({ status: 200, body: "paid" }));
    });
    afterEach(async () => {
      await app.close();
      await instance[Symbol.asyncDispose]();
    });

    const get = (path: string, headers: Record<string, string> = {}) => fetch(app.url + path, { headers });
    const bearer = (key: string) => ({ authorization: `Bearer ${key}` });
    async function minted(options: Parameters<TestKeyrack["plane"]["mint"]>[0] = {}): Promise<string> {
      const { key } = instance.plane.mint(options);
      await until(() => instance.keyrack.verify(key).ok);
      return key;
    }

    it("passes the context to the handler, from either header, scheme in any case", async () => {
      const key = await minted({ scopes: ["read"] });
      const sent = [bearer(key), { authorization: `bearer  ${key}` }, { "x-api-key": key }];
      for (const headers of sent) {
        const response = await get("/me", headers);
        expect(response.status).toBe(200);
        expect(await response.json()).toMatchObject({
          keyrack: {
            tenantId: instance.plane.tenantId,
            env: "live",
            verified: true,
            degraded: false,
            scopes: ["read"],
            rateLimit: [],
          },
        });
      }
    });

    it("takes x-api-key beside a bearer token that is not a key", async () => {
      const key = await minted();
      expect((await get("/me", { authorization: "Bearer eyJhbGciOi.a.b", "x-api-key": key })).status).toBe(200);
      expect((await get("/me", { authorization: "Basic dTpw", "x-api-key": key })).status).toBe(200);
      expect((await get("/me", { ...bearer(key), "x-api-key": "kr_live_wrong" })).status).toBe(200);
    });

    it("responds 401 without a key, with the challenge and no error code", async () => {
      for (const headers of [{}, { authorization: "Basic dTpw" }, { authorization: "Bearer" }, { authorization: "" }]) {
        const response = await get("/me", headers);
        expect(response.status).toBe(401);
        expect(response.headers.get("www-authenticate")).toBe(AUTH);
        expect(response.headers.get("cache-control")).toBe("no-store");
        expect(response.headers.get("content-type")).toMatch(/^application\/json/);
        expect(await response.json()).toMatchObject({ error: { code: "missing_key" } });
      }
    });

    it("responds 401 to any invalid key with one message", async () => {
      const key = await minted();
      const wrong = [`${key}x`, "eyJhbGciOi.a.b", key.replace("kr_live", "kr_test"), "kr_live_\t"];
      for (const text of wrong) {
        const response = await get("/me", bearer(text));
        expect(response.status).toBe(401);
        expect(response.headers.get("www-authenticate")).toBe(`${AUTH}, error="invalid_token"`);
        expect(await response.json()).toEqual({ error: { code: "invalid_key", message: "Invalid API key." } });
      }
    });

    it("responds 403 with the missing scopes in the body and in the challenge", async () => {
      const response = await get("/read", bearer(await minted({ scopes: ["write"] })));
      expect(response.status).toBe(403);
      expect(response.headers.get("www-authenticate")).toBe(`${AUTH}, error="insufficient_scope", scope="read"`);
      expect(await response.json()).toEqual({
        error: { code: "insufficient_scope", message: "The API key lacks a required scope.", missing_scopes: ["read"] },
      });
    });

    it("skips verification only where configured, with a null context", async () => {
      expect(await (await get("/open")).json()).toEqual({ keyrack: null });
      expect(await (await get("/open", bearer("nonsense"))).json()).toEqual({ keyrack: null });
    });

    it("uses only getKey where there is one", async () => {
      const key = await minted();
      expect((await get("/header", { "x-my-key": key })).status).toBe(200);
      expect((await get("/header", bearer(key))).status).toBe(401);
    });

    it("judges the socket's address, or what getIp returns, and no header", async () => {
      const [here, there] = [["127.0.0.0/8", "::1"], ["203.0.113.0/24"]].map(
        (allowed_cidrs) => instance.plane.mint({ allowed_cidrs, ip_mode: "enforce" }).key,
      );
      await until(() => instance.keyrack.status().keys === 2);
      const statuses = async (key = "") => {
        const headers = { ...bearer(key), "x-forwarded-for": "203.0.113.9", "x-real-ip": "203.0.113.9" };
        const forged = { ...headers, forwarded: "for=203.0.113.9" };
        return [
          (await get("/me", bearer(key))).status,
          (await get("/me", forged)).status,
          (await get("/from", bearer(key))).status,
        ];
      };
      const onSocket = name === "fetch" ? 403 : 200;
      expect([await statuses(here), await statuses(there)]).toEqual([
        [onSocket, onSocket, 403],
        [403, 403, 200],
      ]);
      const refused = await get("/me", bearer(there ?? ""));
      expect(await refused.json()).toEqual({
        error: { code: "ip_not_allowed", message: "This API key may not be used from this address." },
      });
      expect(JSON.stringify([...refused.headers])).not.toMatch(/127\.0|203\.0/);
    });

    it("sets the rate limit headers on allowed responses, and responds 429 when the limit is spent", async () => {
      const key = await minted({ rate_limits: [rule] });
      instance.plane.limits.now = () => 0; // however long the requests take
      const first = await get("/me", bearer(key));
      expect(first.headers.get("ratelimit-policy")).toBe('"per-minute";q=2;w=60');
      expect(first.headers.get("ratelimit")).toBe('"per-minute";r=1;t=60');
      expect(await first.json()).toMatchObject({
        keyrack: { rateLimit: [{ id: "per-minute", remaining: 1, limit: 2 }] },
      });
      const raw = await fetch(`${app.url}/pay`, { method: "POST", headers: bearer(key) });
      expect([await raw.text(), raw.headers.get("ratelimit-policy")]).toEqual(["paid", '"per-minute";q=2;w=60']);
      expect(raw.headers.get("ratelimit")).toBe('"per-minute";r=0;t=60');
      const third = await get("/me", bearer(key));
      expect(third.status).toBe(429);
      expect(third.headers.get("ratelimit")).toBe('"per-minute";r=0;t=60');
      expect(third.headers.get("ratelimit-policy")).toBe('"per-minute";q=2;w=60');
      expect(third.headers.get("retry-after")).toBe("60");
      expect(await third.json()).toEqual({ error: { code: "rate_limited", message: "Too many requests." } });
      expect((await get("/free", bearer(key))).status).toBe(200);
      expect(instance.plane.limits.checks.length).toBe(3);
    });

    it("spends leased units without a request for each", async () => {
      const key = await minted({ rate_limits: [{ ...rule, limit: 320 }] });
      const responses = [];
      for (let i = 0; i < 40; i++) responses.push((await get("/leased", bearer(key))).status);
      expect(new Set(responses)).toEqual(new Set([200]));
      expect(instance.plane.limits.leases.length).toBeLessThan(10);
      expect(instance.plane.limits.checks.length).toBe(0);
    });

    it("reports every request with its route, status, key and reason", async () => {
      const key = await minted();
      await get("/me?secret=1", bearer(key));
      await get("/me");
      await get("/open");
      await instance.keyrack.close();
      const { events } = instance.plane.ingest;
      expect(events.map(({ method, path, status, denial_reason }) => [method, path, status, denial_reason])).toEqual([
        ["GET", "/me", 200, null],
        ["GET", "/me", 401, "missing_key"],
      ]);
      expect(events.map(({ route }) => route)).toEqual(
        name === "node" || name === "fetch" ? [null, null] : ["/me", "/me"],
      );
      expect(events[0]).toMatchObject({
        tenant_id: instance.plane.tenantId,
        display_prefix: key.slice(0, 14),
        env: "live",
      });
      expect(instance.plane.ingest.dropped).toBe(0);
    });
  });

  it(`protect on ${name} reads several X-Forwarded-For headers as one, and a fetch request has no peer`, async () => {
    await using instance = await startTestKeyrack({ options: { trustedProxies: ["127.0.0.0/8", "::1"] } });
    const app = await make(instance.keyrack, async () => ({ status: 200, body: "paid" }));
    const { key } = instance.plane.mint({ allowed_cidrs: ["203.0.113.0/24"], ip_mode: "enforce" });
    await until(() => instance.keyrack.status().keys === 1);
    const statusOf = async (...forwardedFor: string[]): Promise<number> => {
      const headers = { authorization: `Bearer ${key}`, "x-forwarded-for": forwardedFor };
      const [response] = await once(request(`${app.url}/me`, { headers }).end(), "response");
      response.resume();
      return response.statusCode;
    };
    const named = name === "fetch" ? 403 : 200;
    expect([
      await statusOf("198.51.100.1", "203.0.113.9"),
      await statusOf("198.51.100.1, 203.0.113.9", "127.0.0.2"),
      await statusOf("203.0.113.9", "198.51.100.1"),
      await statusOf("203.0.113.9", "198.51.100.1", "127.0.0.2"),
    ]).toEqual([named, named, 403, 403]);
    await app.close();
  });

  describe(`protect on ${name} without a policy`, () => {
    it("responds 503 after close(), in both fail modes, before this node has left", async () => {
      await using instance = await startTestKeyrack();
      const app = await make(instance.keyrack, async () => ({ status: 200, body: "paid" }));
      const { key } = instance.plane.mint({ scopes: ["read"] });
      await until(() => instance.keyrack.verify(key).ok);
      const headers = { authorization: `Bearer ${key}` };
      const statuses = async () => [
        (await fetch(`${app.url}/me`, { headers })).status,
        (await fetch(`${app.url}/lax`, { headers })).status,
      ];
      expect(await statuses()).toEqual([200, 200]);
      const closed = instance.keyrack.close();
      expect(instance.keyrack.verify(key)).toMatchObject({ ok: false, code: "unavailable", status: 503 });
      expect(instance.keyrack.verify(key, { failMode: "open" })).toMatchObject({ ok: false, code: "unavailable" });
      await closed;
      expect(instance.plane.seen.some(({ query }) => query.has("leaving"))).toBe(true);
      expect(await statuses()).toEqual([503, 503]);
      expect((await fetch(`${app.url}/me`, { headers: { "x-api-key": "nonsense" } })).status).toBe(401);
      expect(instance.keyrack.status()).toMatchObject({ version: null, keys: 0, degraded: true });
      await app.close();
    });

    it("responds 503 where it fails closed, and admits unverified where it fails open", async () => {
      await using instance = await startTestKeyrack({ options: { url: "http://127.0.0.1:9" }, ready: false });
      const app = await make(instance.keyrack, async () => ({ status: 200, body: "paid" }));
      const headers = { authorization: `Bearer ${instance.plane.mint().key}` };
      const closed = await fetch(`${app.url}/me`, { headers });
      expect([closed.status, closed.headers.get("retry-after")]).toEqual([503, "1"]);
      expect(await closed.json()).toMatchObject({ error: { code: "unavailable" } });
      const open = await fetch(`${app.url}/lax`, { headers });
      expect(await open.json()).toMatchObject({ keyrack: { verified: false, tenantId: null, degraded: true } });
      const pay = await fetch(`${app.url}/pay`, { method: "POST", headers: { ...headers, "idempotency-key": "k" } });
      expect(pay.status).toBe(503);
      await app.close();
    });
  });
}

// At the same time, because each waits for its library's next report.
describe.concurrent("a request whose client disconnects while its limits are checked", () => {
  for (const [name, make] of Object.entries(apps))
    it(`is reported by protect on ${name}`, async () => {
      await using instance = await startTestKeyrack();
      const app = await make(instance.keyrack, async () => ({ status: 200, body: "paid" }));
      const { key, id } = instance.plane.mint({ rate_limits: [rule] });
      await until(() => instance.keyrack.verify(key).ok);
      let check = () => {};
      const gate = new Promise<void>((resolve) => (check = resolve));
      let isChecking = false;
      instance.plane.injectFault = async ({ path }) => {
        isChecking ||= path.endsWith("/check");
        if (path.endsWith("/check")) await gate;
        return undefined;
      };
      const leaving = request(`${app.url}/me`, { headers: { authorization: `Bearer ${key}` } });
      leaving.on("error", () => {}).end();
      await until(() => isChecking);
      leaving.destroy();
      await until(async () => (await app.connections()) === 0);
      const checked = instance.plane.next("/v1/ratelimit/check");
      check();
      await checked;
      await instance.plane.next("/v1/ingest");
      const onWeb = name === "hono" || name === "h3" || name === "fetch";
      expect(instance.plane.ingest.events.map(({ key_id, status }) => [key_id, status])).toEqual([
        [id, onWeb ? 200 : 499],
      ]);
      await app.close();
    });
});
