// The machine plane while a store is unavailable: limits continue, idempotency refuses, no handler runs twice.
import { Redis } from "ioredis";
import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { ExitError } from "../../../src/kernel/exit-error.ts";
import { postgresUrl } from "../../../harness/databases/backends.ts";
import { expectRefusal, testInstance, type Reply, type Workspace } from "../../../harness/instances/test-instance.ts";
import { hasRedis, startDurableRedis, startRedis } from "../../../harness/databases/redis.ts";
import { until } from "../../../harness/waiting.ts";
import { telemetryBatch, telemetryEvent } from "../../../harness/telemetry.ts";

const hash = (text: string): string => createHash("sha256").update(text).digest("hex");
const claimOf = (workspace: Workspace, name: string): Promise<Reply> =>
  workspace.call("sk_owner", "POST /v1/idempotency/claim", {
    scope_hash: hash(name),
    fingerprint: hash("f"),
    env: "live",
  });

describe.runIf(hasRedis())("idempotency in Redis", () => {
  it("responds 503 while Redis is down and has every claim when it is back", async () => {
    const redis = await startDurableRedis();
    const instance = await testInstance("sqlite", { flags: { redis_url: redis.url, idempotency_store: "redis" } });
    try {
      const workspace = await instance.workspace();
      expect((await claimOf(workspace, "before")).body.state).toBe("execute");
      await redis.kill();
      for (let i = 0; i < 10; i++) {
        const refused = await claimOf(workspace, `while ${i}`);
        expectRefusal(refused, 503, "unavailable");
        expect(refused.headers.get("retry-after")).toBe("1");
      }
      expectRefusal(await claimOf(workspace, "before"), 503, "unavailable");
      await redis.start();
      await until(async () => (await claimOf(workspace, "probe")).status === 200);
      expect((await claimOf(workspace, "before")).body.state).toBe("in_progress");
    } finally {
      await instance[Symbol.asyncDispose]();
      await redis.stop();
    }
  });

  it("never grants a second execute to claims that race with a killed Redis", async () => {
    const redis = await startDurableRedis();
    const instance = await testInstance("sqlite", { flags: { redis_url: redis.url, idempotency_store: "redis" } });
    try {
      const workspace = await instance.workspace();
      const executes = new Map<string, number>();
      for (let round = 0; round < 5; round++) {
        const names = Array.from({ length: 20 }, (_, i) => `${round}/${i % 10}`);
        const racing = names.map(async (name) => ({ name, reply: await claimOf(workspace, name) }));
        await redis.kill();
        for (const { name, reply } of await Promise.all(racing)) {
          if (reply.body.state === "execute") executes.set(name, (executes.get(name) ?? 0) + 1);
          else expect([200, 503]).toContain(reply.status);
        }
        await redis.start();
        await until(async () => (await claimOf(workspace, "probe")).status === 200);
        for (const name of new Set(names)) {
          const { body } = await claimOf(workspace, name);
          if (body.state === "execute") executes.set(name, (executes.get(name) ?? 0) + 1);
        }
      }
      expect(executes.size).toBeGreaterThan(0); // a claim whose answer was lost executes when its lock expires
      expect([...executes.values()].every((times) => times === 1)).toBe(true);
    } finally {
      await instance[Symbol.asyncDispose]();
      await redis.stop();
    }
  });

  for (const [why, args, said] of [
    ["without an append-only file", [], "append-only file"],
    ["with appendfsync everysec", ["--appendonly", "yes", "--appendfsync", "everysec"], "appendfsync always"],
    [
      "that may evict",
      ["--appendonly", "yes", "--appendfsync", "always", "--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru"],
      "evict",
    ],
  ] as const) {
    it(`is refused at start on a Redis ${why}, unless forced`, async ({ skip }) => {
      const durable = await startDurableRedis();
      const redis = await startRedis([...args, "--dir", durable.dir, "--appenddirname", "other"]);
      if (!redis) {
        skip("no Redis");
        return;
      }
      const flags = { redis_url: redis.url, idempotency_store: "redis" };
      try {
        const refused = await testInstance("sqlite", { flags }).catch((error: unknown) => error);
        expect(refused).toBeInstanceOf(ExitError);
        expect((refused as ExitError).exitCode).toBe(2);
        expect((refused as ExitError).message).toContain(said);
        await using instance = await testInstance("sqlite", { flags: { ...flags, idempotency_store: "redis-forced" } });
        expect((await claimOf(await instance.workspace(), "forced")).body.state).toBe("execute");
      } finally {
        await redis.stop();
        await durable.stop();
      }
    });
  }

  it("is refused at start on a Redis with replicas, unless forced", async () => {
    const redis = await startDurableRedis();
    const { hostname, port } = new URL(redis.url);
    const replica = await startRedis(["--replicaof", hostname, port]);
    const client = new Redis(redis.url);
    const flags = { redis_url: redis.url, idempotency_store: "redis" };
    try {
      await until(async () => (await client.info("replication")).includes("connected_slaves:1"));
      const refused = await testInstance("sqlite", { flags }).catch((error: unknown) => error);
      expect((refused as ExitError).message).toContain("replicas");
      await using instance = await testInstance("sqlite", { flags: { ...flags, idempotency_store: "redis-forced" } });
      expect((await claimOf(await instance.workspace(), "forced")).body.state).toBe("execute");
    } finally {
      client.disconnect();
      await replica?.stop();
      await redis.stop();
    }
  });

  it("is refused at start without a Redis address", async () => {
    const refused = await testInstance("sqlite", { flags: { idempotency_store: "redis" } }).catch(
      (error: unknown) => error,
    );
    expect((refused as ExitError).message).toContain("KEYRACK_REDIS_URL");
  });

  it("starts while Redis is down, refuses claims, and accepts them once it is up", async () => {
    const redis = await startDurableRedis();
    await redis.kill();
    const instance = await testInstance("sqlite", { flags: { redis_url: redis.url, idempotency_store: "redis" } });
    try {
      const workspace = await instance.workspace();
      expectRefusal(await claimOf(workspace, "early"), 503, "unavailable");
      await redis.start();
      await until(async () => (await claimOf(workspace, "early")).status === 200);
      expect((await claimOf(workspace, "early")).body.state).toBe("in_progress");
    } finally {
      await instance[Symbol.asyncDispose]();
      await redis.stop();
    }
  });
});

describe.runIf(postgresUrl)("idempotency when PostgreSQL drops its connections", () => {
  it("never grants a second execute, and recovers without a restart", async () => {
    await using instance = await testInstance("postgres");
    const workspace = await instance.workspace();
    const executes = new Map<string, number>();
    const count = (name: string, reply: Reply): void => {
      if (reply.body.state === "execute") executes.set(name, (executes.get(name) ?? 0) + 1);
      else expect([200, 503]).toContain(reply.status);
    };
    for (let round = 0; round < 5; round++) {
      const names = Array.from({ length: 20 }, (_, i) => `${round}/${i % 10}`);
      const racing = names.map(async (name) => ({ name, reply: await claimOf(workspace, name) }));
      await instance.sql(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()",
      );
      for (const { name, reply } of await Promise.all(racing)) count(name, reply);
      await until(async () => (await claimOf(workspace, "probe")).status === 200);
      for (const name of new Set(names)) count(name, await claimOf(workspace, name));
    }
    expect([...executes.values()].every((times) => times === 1)).toBe(true);
  });
});

describe.runIf(postgresUrl)("two Keyrack processes on one PostgreSQL and one Redis", () => {
  it("share limits exactly, claims, ingest budgets and figures", async ({ skip }) => {
    const redis = await startRedis();
    if (!redis) {
      skip("no Redis");
      return;
    }
    const flags = { redis_url: redis.url, ingest_events_per_minute: "100" };
    const one = await testInstance("postgres", { flags });
    const two = await testInstance("postgres", { flags, beside: one });
    try {
      const workspace = await one.workspace();
      const key = await workspace.mint();
      const bearer = workspace.keys.sk_owner;
      const on = (i: number) => (i % 2 === 0 ? one : two);
      const limits = [{ id: "a", limit: 50, window_ms: 60_000, algorithm: "sliding", scope: "key" }];
      const asked = { project_id: workspace.project_id, env: "live", key_id: key.id, limits };
      const checks = await Promise.all(
        Array.from({ length: 120 }, (_, i) => on(i).call(bearer, "POST /v1/ratelimit/check", asked)),
      );
      expect(checks.filter(({ body }) => body.allowed)).toHaveLength(50);
      expect(checks.every(({ body }) => body.store === "redis")).toBe(true);

      const wanted = { scope_hash: hash("shared"), fingerprint: hash("f"), env: "live" };
      const claims = await Promise.all(
        Array.from({ length: 32 }, (_, i) => on(i).call(bearer, "POST /v1/idempotency/claim", wanted)),
      );
      expect(claims.filter(({ body }) => body.state === "execute")).toHaveLength(1);

      const ts = new Date(one.clock.now()).toISOString();
      const where = { ts, project_id: workspace.project_id, key_id: key.id, tenant_id: workspace.tenant_id };
      const batch = (n: number) =>
        telemetryBatch(Array.from({ length: 30 }, (_, i) => telemetryEvent({ ...where, request_id: `${n}-${i}` })));
      const sent = await Promise.all([0, 1, 2, 3].map((n) => on(n).call(bearer, "POST /v1/ingest/batch", batch(n))));
      expect(sent.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([202, 202, 202, 429]);
      const { body } = await two.call(bearer, `GET /v1/keys/${key.id}/usage?days=1`);
      expect(body.data[0].requests).toBe(90);
    } finally {
      await two[Symbol.asyncDispose]();
      await one[Symbol.asyncDispose]();
      await redis.stop();
    }
  });
});
