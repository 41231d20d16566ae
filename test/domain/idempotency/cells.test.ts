// How many idempotency records an environment of a workspace may have, and what is counted, on every store.
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { deleteKeys, findRedis, hasRedis, ownPrefix } from "../../../harness/databases/redis.ts";
import { rawSql } from "../../../harness/databases/raw-sql.ts";
import { openSchemaFixture } from "../../../harness/databases/schema-fixture.ts";
import { sharedServices, vendorOf, type TestServices } from "../../../harness/instances/test-services.ts";
import { hash } from "../../../harness/models/idempotency.ts";
import {
  claim,
  complete,
  reapIdempotency,
  recountIdempotency,
  release,
} from "../../../src/domain/idempotency/claims.ts";
import type { Services } from "../../../src/domain/core/context.ts";
import { Failure } from "../../../src/kernel/errors.ts";
import { RedisClaims } from "../../../src/ratelimit/redis/claims.ts";
import { openStore } from "../../../src/store/database.ts";

const MAX = 1_000_000;
const CELLS = `select env, records, stored_bytes from idempotency_cells
  where workspace_id = $1 and (records > 0 or stored_bytes > 0) order by env`;
const RECORDS = `select env, count(*) as records, sum(stored_bytes) as stored_bytes from idempotency_records
  where workspace_id = $1 group by env order by env`;

type Sql = TestServices["sql"];

/** What is counted of a workspace, and what there is. */
async function counted(sql: Sql, workspace_id: string) {
  const read = async (text: string) =>
    (await sql(text, [workspace_id])).map(({ env, ...counts }) => [
      env,
      Number(counts.records),
      Number(counts.stored_bytes),
    ]);
  return { cells: await read(CELLS), records: await read(RECORDS) };
}

for (const backend of runBackends) {
  describe(`counts of idempotency records on ${backend}`, () => {
    const shared = sharedServices(backend);
    const open = async () => {
      const fixture = shared();
      const { services, clock } = fixture;
      const sql: Sql = (text, values) => fixture.sql(text, values);
      const ctx = await vendorOf(services);
      const { workspace_id } = ctx.actor;
      const setCount = (env: string, records: number) =>
        sql("update idempotency_cells set records = $1 where workspace_id = $2 and env = $3", [
          records,
          workspace_id,
          env,
        ]);
      return { services, sql, clock, ctx, setCount, counted: () => counted(sql, workspace_id) };
    };

    it("refuse a new key of a full environment, and nothing else", async () => {
      const { services, clock, ctx, setCount } = await open();
      const ask = (name: string, env: "live" | "test" = "live") =>
        claim(ctx, { scope_hash: hash(name), fingerprint: hash("f"), env, ttl_ms: 60_000 });
      await ask("known");
      await setCount("live", MAX - 10);
      const answers = await Promise.allSettled(Array.from({ length: 30 }, (_, i) => ask(`new ${i}`)));
      const refused = answers.flatMap((each) => (each.status === "rejected" ? [each.reason as Failure] : []));
      expect(refused).toHaveLength(20);
      expect(refused[0]).toBeInstanceOf(Failure);
      expect(refused[0]).toMatchObject({
        failure: "share_spent",
        extra: {
          retryAfterSeconds: 60,
          rateLimit: { id: "idempotency", limit: 1_000_000, windowMs: 60_000, remaining: 0, resetMs: 60_000 },
        },
      });
      expect(services.shares.of("idempotency").refused.get("cell")).toBe(20);
      expect((await ask("known")).state).toBe("in_progress");
      expect((await ask("new", "test")).state).toBe("execute");
      // A record that has expired can be claimed again before its place is given back; then there is room.
      clock.advance(60_000);
      expect(await ask("known")).toMatchObject({ state: "execute", stolen: false });
      await expect(ask("later")).rejects.toMatchObject({ failure: "share_spent" });
      expect(await reapIdempotency(services)).toBe(11);
      expect((await ask("later")).state).toBe("execute");
    });

    it("give back the bytes of a response whose record expired and is claimed again", async () => {
      const { clock, ctx, counted: count } = await open();
      const scope = { scope_hash: hash("every day"), env: "live" as const };
      const bytes: unknown[] = [];
      for (let day = 0; day < 3; day++) {
        const { state, stolen, lock_token } = await claim(ctx, {
          ...scope,
          fingerprint: hash(`${day}`),
          ttl_ms: 60_000,
        });
        expect([state, stolen]).toEqual(["execute", false]);
        expect((await count()).cells).toEqual([["live", 1, 0]]);
        await complete(ctx, { ...scope, lock_token: lock_token ?? "", status: 200, headers: {}, body: "YQ==" });
        const { cells, records } = await count();
        expect(cells).toEqual(records);
        bytes.push(cells[0]?.[2]);
        clock.advance(60_000);
      }
      expect(bytes[0]).toBeGreaterThan(0);
      expect(new Set(bytes).size).toBe(1);
    });

    it("equal the records through claims, completions, releases and reaping", async () => {
      const { services, clock, ctx, counted: count } = await open();
      const held = await Promise.all(
        Array.from({ length: 40 }, async (_, i) => {
          const scope = { scope_hash: hash(`${i}`), env: i % 4 === 0 ? ("test" as const) : ("live" as const) };
          const ttl_ms = i < 20 ? 60_000 : 120_000;
          const { lock_token } = await claim(ctx, { ...scope, fingerprint: hash("f"), ttl_ms });
          return { ...scope, lock_token: lock_token ?? "" };
        }),
      );
      await Promise.all(
        held.map((lock, i) =>
          i % 3 === 0
            ? release(ctx, lock)
            : complete(ctx, { ...lock, status: 200, headers: { n: "1" }, body: i % 3 === 1 ? "YQ==" : null }),
        ),
      );
      const before = await count();
      expect(before.cells).toEqual(before.records);
      expect(before.cells.map(([env, records]) => [env, records])).toEqual([
        ["live", 20],
        ["test", 6],
      ]);
      clock.advance(60_000);
      await reapIdempotency(services);
      const after = await count();
      expect(after.cells).toEqual(after.records);
      expect(after.cells).not.toEqual(before.cells);
      clock.advance(60_000);
      await reapIdempotency(services);
      expect(await count()).toEqual({ cells: [], records: [] });
    });

    it("are corrected by a recount, in both directions, and never fall below zero", async () => {
      const { services, sql, clock, ctx, setCount, counted: count } = await open();
      for (const env of ["live", "test"] as const)
        for (const name of ["a", "b"]) await claim(ctx, { scope_hash: hash(name), fingerprint: hash("f"), env });
      await setCount("live", 500);
      await setCount("test", 0);
      await sql("update idempotency_cells set stored_bytes = 7");
      await recountIdempotency(services);
      const { cells, records } = await count();
      expect(cells).toEqual(records);
      await setCount("live", 0);
      clock.advance(86_400_000);
      await reapIdempotency(services);
      expect(await count()).toEqual({ cells: [], records: [] });
    });

    it("are not compared on a thread where there are none", async () => {
      const { services, sql } = await open();
      for (const table of ["idempotency_records", "idempotency_cells"]) await sql(`delete from ${table}`);
      const read = vi.spyOn(services.store, "readOnThread");
      await recountIdempotency(services);
      expect(read).not.toHaveBeenCalled();
    });

    it("are filled from the records of an earlier schema: on PostgreSQL after the migration, which holds locks", async () => {
      await using old = await openSchemaFixture(backend, 33);
      const store = await openStore(old.target, { now: Date.now, fatal: () => {} });
      const sql: Sql = (text, values) => rawSql(old.target, text, values);
      const [{ workspace_id } = {}] = await sql("select workspace_id from idempotency_records");
      expect((await counted(sql, String(workspace_id))).cells.length > 0).toBe(backend === "sqlite");
      await recountIdempotency({ store, shutdown: new AbortController() } as unknown as Services);
      await store.close();
      const { cells, records } = await counted(sql, String(workspace_id));
      expect(cells.length).toBeGreaterThan(0);
      expect(cells).toEqual(records);
    });
  });
}

describe.runIf(hasRedis())("counts of idempotency records on redis", () => {
  const prefix = ownPrefix();
  let redis: Awaited<ReturnType<typeof findRedis>>;
  beforeAll(async () => {
    redis = await findRedis();
  });
  afterAll(async () => {
    if (redis) await deleteKeys(redis.url, prefix);
    await redis?.stop();
  });
  const open = async (options: { recordsMax?: number; storedBytesMax?: number }) => {
    let now = Date.now();
    const { claims } = await RedisClaims.open({ urls: [redis!.url], prefix, forced: true, now: () => now, ...options });
    const workspace_id = crypto.randomUUID();
    const scope = (name: string, env: "live" | "test" = "live") => ({ workspace_id, env, scope_hash: hash(name) });
    const ask = async (name: string, env?: "live" | "test") => {
      const wanted = { fingerprint: hash("f"), token_hash: hash(name), ttl_ms: 60_000 };
      return (await claims.claim(scope(name, env), wanted)).state;
    };
    const finish = (name: string, bytes: number, env?: "live" | "test") => {
      const sealed_full = new Uint8Array(bytes);
      const stored = { status: 200, ttl_ms: null, sealed_full, sealed_without_body: new Uint8Array(3) };
      return claims.complete(scope(name, env), { token_hash: hash(name), ...stored });
    };
    const advance = (ms: number) => {
      now += ms;
    };
    return { claims, scope, ask, finish, advance, [Symbol.dispose]: () => claims.close() };
  };

  it("refuse a new key of a full environment, and nothing else", async () => {
    using store = await open({ recordsMax: 2 });
    expect([await store.ask("a"), await store.ask("b"), await store.ask("c")]).toEqual(["execute", "execute", "full"]);
    expect([await store.ask("a"), await store.ask("c", "test")]).toEqual(["in_progress", "execute"]);
    expect(await store.claims.release(store.scope("a"), hash("a"))).toBe("ok");
    expect([await store.ask("c"), await store.ask("d")]).toEqual(["execute", "full"]);
    await store.finish("c", 3);
    expect(await store.ask("d")).toBe("full");
    store.advance(30_000);
    expect(await store.claims.heartbeat(store.scope("b"), hash("b"))).toBe("ok");
    store.advance(30_000);
    expect([await store.ask("d"), await store.ask("e")]).toEqual(["execute", "execute"]);
  });

  it("bound the stored bytes of each environment, and give them back when they expire", async () => {
    using store = await open({ storedBytesMax: 16 });
    const stores = async (name: string, env?: "live" | "test") => {
      await store.ask(name, env);
      return (await store.finish(name, 9, env)).body_stored;
    };
    expect([await stores("a"), await stores("b"), await stores("b", "test")]).toEqual([true, false, true]);
    store.advance(60_000);
    expect([await stores("a"), await stores("c")]).toEqual([true, false]);
    store.advance(60_000);
    expect(await stores("a")).toBe(true);
  });
});
