// Rate-limit checks and leases over HTTP, on both stores. The limiter's arithmetic has its own suites.
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { flushCounters } from "../../../src/domain/limits/ratelimit.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import {
  expectRefusal,
  testInstance,
  type Json,
  type TestInstance,
  type Workspace,
} from "../../../harness/instances/test-instance.ts";
import { startRedis, type OwnRedis } from "../../../harness/databases/redis.ts";
import { turns, until } from "../../../harness/waiting.ts";

const rule = (more: Json = {}): Json => ({
  id: "per-minute",
  limit: 3,
  window_ms: 60_000,
  algorithm: "sliding",
  scope: "key",
  ...more,
});

for (const store of ["memory", "redis"] as const) {
  describe(`ratelimit on ${store}`, () => {
    let redis: OwnRedis | null = null;
    let instance: TestInstance;
    let workspace: Workspace;
    let key_id: string;
    beforeAll(async () => {
      if (store === "redis") redis = await startRedis();
      instance = await testInstance("sqlite", redis ? { flags: { redis_url: redis.url } } : {});
    });
    afterAll(async () => {
      await instance[Symbol.asyncDispose]();
      await redis?.stop();
    });
    beforeEach(async () => {
      workspace = await instance.workspace();
      key_id = instance.app.services.newId();
    });

    const asked = (more: Json = {}): Json => ({
      project_id: workspace.project_id,
      env: "live",
      key_id,
      tenant_id: workspace.tenant_id,
      limits: [rule()],
      ...more,
    });
    const check = (more: Json = {}, as: "sk_owner" | "sk_test" = "sk_owner") =>
      workspace.call(as, "POST /v1/ratelimit/check", asked(more));

    it("admits up to the limit, then denies with a 200 that names the rule and the wait", async () => {
      for (const remaining of [2, 1, 0]) {
        const { status, body } = await check();
        expect(status).toBe(200);
        expect(body).toEqual({
          object: "ratelimit_result",
          allowed: true,
          limited_policy: null,
          retry_after_seconds: null,
          store,
          policies: [{ id: "per-minute", limit: 3, window_ms: 60_000, remaining, reset_ms: expect.any(Number) }],
        });
      }
      const { status, body } = await check();
      expect(status).toBe(200);
      expect(body).toMatchObject({ allowed: false, limited_policy: "per-minute", store });
      expect(body.retry_after_seconds).toBeGreaterThanOrEqual(60);
      expect(body.retry_after_seconds).toBeLessThanOrEqual(61);
      instance.clock.advance(61_000);
      expect((await check()).body).toMatchObject({ allowed: true });
      expect(await workspace.actions()).toEqual([]);
    });

    it("charges several rules all or none, and peeks without charging", async () => {
      const limits = [rule({ limit: 10, id: "wide" }), rule({ limit: 1, id: "tight", scope: "tenant" })];
      expect((await check({ limits })).body.allowed).toBe(true);
      expect((await check({ limits })).body).toMatchObject({ allowed: false, limited_policy: "tight" });
      const { body } = await check({ limits, cost: 0 });
      expect(body).toMatchObject({ allowed: false, policies: [{ remaining: 9 }, { remaining: 0 }] });
    });

    it("reports no retry time when the cost exceeds the limit", async () => {
      expect((await check({ cost: 4 })).body).toMatchObject({ allowed: false, retry_after_seconds: null });
    });

    it("shares one counter among requests without an id", async () => {
      for (let i = 0; i < 3; i++) expect((await check({ key_id: null })).body.allowed).toBe(true);
      const { key_id: _, ...without } = asked();
      expect((await workspace.call("sk_owner", "POST /v1/ratelimit/check", without)).body.allowed).toBe(false);
    });

    it("keeps workspaces and environments apart", async () => {
      for (let i = 0; i < 3; i++) await check();
      expect((await check({ env: "test" })).body.allowed).toBe(true);
      const other = await instance.workspace();
      const { body } = await other.call("sk_owner", "POST /v1/ratelimit/check", asked());
      expect(body.allowed).toBe(true);
    });

    it("refuses a test key that names the live environment", async () => {
      expectRefusal(await check({}, "sk_test"), 403, "forbidden");
      expectRefusal(await workspace.call("sk_test", "POST /v1/ratelimit/lease", asked({ want: 1 })), 403, "forbidden");
      expect((await check({ env: "test" }, "sk_test")).status).toBe(200);
    });

    it("leases what all rules still allow, and takes back unspent units", async () => {
      const lease = (want: number) => workspace.call("sk_owner", "POST /v1/ratelimit/lease", asked({ want }));
      const first = await lease(2);
      expect(first.status).toBe(200);
      expect(first.body).toMatchObject({ object: "ratelimit_lease", granted: 2, expires_in_ms: 6_000, store });
      expect((await lease(5)).body).toMatchObject({ granted: 1 });
      expect((await lease(1)).body).toMatchObject({ granted: 0, lease_id: null, expires_in_ms: 0 });
      const giveBack = (more: Json) =>
        workspace.call("sk_owner", "POST /v1/ratelimit/return", { lease_id: first.body.lease_id, unused: 1, ...more });
      expect((await giveBack({})).body).toEqual({ object: "ratelimit_return", returned: 1 });
      expect((await giveBack({})).body.returned).toBe(0);
      expect((await lease(5)).body.granted).toBe(1);
    });

    for (const [why, more, path] of [
      ["no rules", { limits: [] }, "limits"],
      ["nine rules", { limits: Array.from({ length: 9 }, (_, i) => rule({ id: `r${i}` })) }, "limits"],
      ["two rules of one id", { limits: [rule(), rule()] }, "limits"],
      ["a window under a second", { limits: [rule({ window_ms: 999 })] }, "limits[0].window_ms"],
      ["an unknown algorithm", { limits: [rule({ algorithm: "leaky" })] }, "limits[0].algorithm"],
      ["cost -1", { cost: -1 }, "cost"],
      ["cost 1001", { cost: 1001 }, "cost"],
      ["a project that is no UUID", { project_id: "x" }, "project_id"],
      ["an unknown field", { extra: 1 }, "extra"],
    ] as const) {
      it(`refuses ${why}`, async () => {
        expectRefusal(await check(more), 400, "invalid_request", path);
      });
    }

    it("does not wait until the changes of others are durable, unless it shows something stored", async () => {
      await check(); // caches the credential
      const awaited = Promise.withResolvers<void>();
      const synced = Promise.withResolvers<void>();
      using _durable = vi.spyOn(instance.app.services.store, "durable").mockImplementation(() => {
        awaited.resolve();
        return synced.promise;
      });
      expect((await check()).status).toBe(200); // hangs if it waits
      expect((await workspace.call("sk_owner", "POST /v1/ratelimit/lease", asked({ want: 1 }))).status).toBe(200);
      let responded = 0;
      const stored = [check({ quotas: true }), check({ limits: [] })].map((reply) => reply.finally(() => responded++));
      await awaited.promise;
      await turns(3);
      expect(responded).toBe(0);
      synced.resolve();
      expect((await Promise.all(stored)).map(({ status }) => status)).toEqual([200, 400]);
    });

    it("reports in its probes whether Redis is configured and ready", async () => {
      const want = { configured: store === "redis", ready: store === "redis", error: null };
      expect((await instance.call(null, "GET /healthz")).body.redis).toEqual(want);
      expect((await instance.call(null, "GET /readyz")).body).toMatchObject({ status: "ok", redis: want });
    });
  });
}

describe("ratelimit when Redis goes away", () => {
  it("responds from memory, reports it in its probes, and returns to Redis by itself", async ({ skip }) => {
    const redis = await startRedis();
    if (!redis) {
      skip("no Redis");
      return;
    }
    const instance = await testInstance("sqlite", { flags: { redis_url: redis.url } });
    try {
      const workspace = await instance.workspace();
      const asked = { project_id: workspace.project_id, env: "live", limits: [rule({ limit: 1000 })] };
      const check = () => workspace.call("sk_owner", "POST /v1/ratelimit/check", asked);
      expect((await check()).body.store).toBe("redis");
      await redis.kill();
      for (let i = 0; i < 20; i++)
        expect(await check()).toMatchObject({ status: 200, body: { allowed: true, store: "memory" } });
      expect((await instance.call(null, "GET /healthz")).body).toMatchObject({
        status: "ok",
        redis: { configured: true, ready: false },
      });
      expect(await instance.call(null, "GET /readyz")).toMatchObject({ status: 200, body: { status: "degraded" } });
      await redis.start();
      instance.clock.advance(60_000);
      await until(async () => (await check()).body.store === "redis");
    } finally {
      await instance[Symbol.asyncDispose]();
      await redis.stop();
    }
  });

  it("responds 503 instead where configured", async ({ skip }) => {
    const redis = await startRedis();
    if (!redis) {
      skip("no Redis");
      return;
    }
    const instance = await testInstance("sqlite", {
      flags: { redis_url: redis.url, ratelimit_on_redis_failure: "error" },
    });
    try {
      const workspace = await instance.workspace();
      await redis.kill();
      const asked = { project_id: workspace.project_id, env: "live", limits: [rule()] };
      const reply = await workspace.call("sk_owner", "POST /v1/ratelimit/check", asked);
      expectRefusal(reply, 503, "unavailable");
      expect(reply.headers.get("retry-after")).toBe("1");
    } finally {
      await instance[Symbol.asyncDispose]();
      await redis.stop();
    }
  });
});

for (const backend of runBackends) {
  describe(`counters over a restart on ${backend}`, () => {
    it("keeps only windows of a minute or more over a clean stop", async () => {
      await using instance = await testInstance(backend);
      const workspace = await instance.workspace();
      const limits = [rule({ id: "day", window_ms: 86_400_000 }), rule({ id: "second", window_ms: 1_000 })];
      const asked = { project_id: workspace.project_id, env: "live", key_id: instance.app.services.newId(), limits };
      await instance.call(workspace.keys.sk_owner, "POST /v1/ratelimit/check", { ...asked, cost: 2 });
      await instance.stop();
      expect(await instance.sql("select key from rate_counters")).toHaveLength(1);
      await using again = await testInstance(backend, { beside: instance });
      const { body } = await again.call(workspace.keys.sk_owner, "POST /v1/ratelimit/check", { ...asked, cost: 0 });
      expect(body.policies).toMatchObject([{ remaining: 1 }, { remaining: 3 }]);
    });

    it("flushes at most 5,000 counters per pass and resumes where it stopped", async () => {
      await using instance = await testInstance(backend);
      const { memory } = instance.app.services.counters;
      const limits = [{ id: "hour", limit: 5, window_ms: 3_600_000, algorithm: "fixed", scope: "key" }] as const;
      for (let i = 0; i < 6_000; i++) {
        memory.check({
          workspace_id: "w",
          project_id: "p",
          env: "live",
          key_id: `k${i}`,
          tenant_id: null,
          cost: 1,
          limits,
        });
      }
      expect(await flushCounters(instance.app.services)).toBe(5_000);
      expect(await flushCounters(instance.app.services)).toBe(1_000);
      expect(await flushCounters(instance.app.services)).toBe(0);
      expect(Number((await instance.sql("select count(*) as n from rate_counters"))[0]?.n)).toBe(6_000);
    });
  });
}
