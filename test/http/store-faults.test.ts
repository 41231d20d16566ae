// The machine plane while Redis or PostgreSQL fails: rate limits keep responding and long polls keep working.
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { cellOwner } from "../../src/fairness/owners.ts";
import { Feed } from "../../src/domain/policy/feed.ts";
import { postgresUrl } from "../../harness/databases/backends.ts";
import { testInstance, type Reply, type TestInstance, type Workspace } from "../../harness/instances/test-instance.ts";
import { hasRedis, startCluster, startRedis, type OwnRedis } from "../../harness/databases/redis.ts";
import { DEADLINE_MS, until } from "../../harness/waiting.ts";

async function admin({ url }: OwnRedis, ...words: string[]): Promise<void> {
  const client = new Redis(url);
  await client.call(words[0] as string, ...words.slice(1));
  client.disconnect();
}

describe.runIf(hasRedis())("ratelimit/check over HTTP while Redis is", () => {
  let redis: OwnRedis;
  let instance: TestInstance;
  let workspace: Workspace;
  /** Short, for the tests in which Redis does not answer. */
  const TIMEOUT_MS = 200;
  const limits = [{ id: "a", limit: 1_000_000, window_ms: 60_000, algorithm: "sliding", scope: "key" }];
  const check = (i = 0, as = workspace): Promise<Reply> =>
    as.call("sk_owner", "POST /v1/ratelimit/check", {
      project_id: as.project_id,
      env: "live",
      key_id: as.project_id,
      limits: limits.map((limit) => ({ ...limit, id: `a${i}` })),
    });
  /** The circuit breaker retries every half second of the instance's own clock. */
  const untilRedisDecides = () =>
    until(async () => {
      instance.clock.advance(500);
      return (await check()).body.store === "redis";
    });

  beforeAll(async () => {
    redis = (await startRedis())!;
    instance = await testInstance("sqlite", { flags: { redis_url: redis.url }, redisTimeoutMs: TIMEOUT_MS });
    workspace = await instance.workspace();
  });
  afterAll(async () => {
    await instance?.[Symbol.asyncDispose]();
    await redis?.stop();
  });

  /** Callers that keep checking until the fault has been seen and is over: every response is a 200 with a decision. */
  async function callersDuring(fault: () => Promise<void>, over: () => Promise<void>): Promise<string[]> {
    await untilRedisDecides();
    const decided = { redis: 0, memory: 0 };
    /** Resolves after a further check of a caller was decided by this store. */
    const another = (store: keyof typeof decided): Promise<void> => {
      const before = decided[store];
      return until(() => {
        if (store === "redis") instance.clock.advance(500); // a busy machine may have opened the circuit by a timeout
        return decided[store] > before;
      });
    };
    const load = { on: true };
    const callers = Array.from({ length: 8 }, async (_none, i) => {
      while (load.on) {
        const { status, body } = await check(i);
        expect([status, body.allowed, body.store in decided]).toEqual([200, true, true]);
        decided[body.store as keyof typeof decided]++;
      }
    });
    try {
      await another("redis");
      await fault();
      await another("memory");
      await over();
      await untilRedisDecides();
      await another("redis");
    } finally {
      load.on = false;
      await Promise.all(callers);
    }
    return Object.entries(decided).flatMap(([store, checks]) => (checks > 0 ? [store] : []));
  }

  it("killed: every check gets a decision, and Redis is used again when it is back", async () => {
    const stores = await callersDuring(
      () => redis.kill(),
      () => redis.start(),
    );
    expect(stores).toEqual(["redis", "memory"]);
  });

  it("paused: every check gets a decision, and Redis is used again when it resumes", async () => {
    const stores = await callersDuring(
      async () => redis.signal("SIGSTOP"),
      async () => redis.signal("SIGCONT"),
    );
    expect(stores).toEqual(["redis", "memory"]);
  });

  it("flushed, including its scripts: Redis decides every check and counts from zero", async () => {
    // Of its own, with a timeout that a busy machine does not reach.
    await using patient = await testInstance("sqlite", {
      flags: { redis_url: redis.url },
      redisTimeoutMs: DEADLINE_MS,
    });
    const own = await patient.workspace();
    await until(async () => (await check(0, own)).body.store === "redis");
    const before = (await check(9, own)).body.policies[0].remaining;
    await admin(redis, "FLUSHALL");
    await admin(redis, "SCRIPT", "FLUSH");
    const { status, body } = await check(9, own);
    expect([status, body.store, body.policies[0].remaining]).toEqual([200, "redis", before]);
  });
});

describe("idempotency on a Redis Cluster", () => {
  it("lets one claimant execute per scope, whichever node stores it", async ({ skip }) => {
    const cluster = await startCluster(["--appendonly", "yes", "--appendfsync", "always"]);
    if (!cluster) {
      skip("no Redis");
      return;
    }
    const instance = await testInstance("sqlite", {
      flags: { redis_url: cluster.urls.join(","), idempotency_store: "redis" },
    });
    try {
      const workspaces = await Promise.all(Array.from({ length: 6 }, () => instance.workspace()));
      const claim = (workspace: Workspace, n: number): Promise<Reply> => {
        const scope_hash = n.toString(16).padStart(64, "0");
        return workspace.call("sk_owner", "POST /v1/idempotency/claim", {
          scope_hash,
          fingerprint: scope_hash,
          env: "live",
        });
      };
      await until(async () => (await claim(workspaces[0] as Workspace, 0)).status === 200);
      for (const workspace of workspaces) {
        const replies = await Promise.all(Array.from({ length: 20 }, (_none, i) => claim(workspace, 1 + (i % 5))));
        const states = replies.map(({ body }) => body.state as string);
        expect(states.filter((state) => state === "execute")).toHaveLength(5);
        expect(states.filter((state) => state === "in_progress")).toHaveLength(15);
      }
    } finally {
      await instance[Symbol.asyncDispose]();
      await cluster.stop();
    }
  });
});

const CUT =
  "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()";

describe.runIf(postgresUrl)("a waiting poll when PostgreSQL drops its connections", () => {
  it("receives what another process changed, whether before or after it listens again", async () => {
    await using one = await testInstance("postgres");
    await using two = await testInstance("postgres", { beside: one });
    const workspace = await one.workspace();
    for (let round = 0; round < 3; round++) {
      const key = await workspace.mint();
      const feed = `/v1/policy/delta?project_id=${workspace.project_id}`;
      const { body } = await one.call(workspace.keys.sk_owner, `GET ${feed}&since=0`);
      const poll = one.call(workspace.keys.sk_owner, `GET ${feed}&since=${body.version}&wait_ms=25000`);
      await until(() => one.app.services.feed.waiting === 1);
      await one.sql(CUT);
      // The other process was disconnected too: it may refuse a few times, but must not leave a change half done.
      await until(async () => {
        const { status } = await two.call(workspace.keys.sk_owner, `POST /v1/keys/${key.id}/revoke`, { reason: "cut" });
        expect([200, 503]).toContain(status);
        return status === 200;
      });
      const reply = await poll;
      expect(reply.status).toBe(200);
      expect(reply.body.changes).toEqual([expect.objectContaining({ key_id: key.id, change: "remove" })]);
    }
  });
});

describe.runIf(postgresUrl)("reads when PostgreSQL drops its connections", () => {
  it("are repeated on new connections", async () => {
    await using one = await testInstance("postgres");
    const workspace = await one.workspace();
    const key = await workspace.mint();
    const reads = (): Promise<Reply[]> =>
      Promise.all(Array.from({ length: 30 }, () => workspace.call("sk_owner", `GET /v1/keys/${key.id}`)));
    for (let round = 0; round < 3; round++) {
      const [replies] = await Promise.all([reads(), one.sql(CUT)]);
      for (const { status } of [...replies, ...(await reads())]) expect(status).toBe(200);
    }
  });
});

describe("waiting polls", () => {
  it("are bounded per process: the next one does not wait", async () => {
    await using instance = await testInstance("sqlite", { flags: { connections_max: "1000" } });
    const { store, shares, feed: served } = instance.app.services;
    const feed = new Feed(store, shares.of("polls"), shares.of("heads"), served.pages);
    const owner = cellOwner("w", "live");
    const waiters = Array.from({ length: 900 }, (_none, i) =>
      feed.subscribe(owner, { project_id: `p${i % 7}`, version: 0 }, 25_000, () => () => {}),
    );
    expect(waiters.every((subscription) => subscription !== undefined)).toBe(true);
    expect(feed.subscribe(owner, { project_id: "p0", version: 0 }, 25_000, () => () => {})).toBeUndefined();
    expect(feed.waiting).toBe(900); // nine tenths of the connections
    feed.stop();
    await Promise.resolve();
    expect(feed.subscribe(owner, { project_id: "p0", version: 0 }, 25_000, () => () => {})).toBeUndefined();
  });
});
