// Idempotency claims compared with a small model, across clock changes and crashes and under contention, on every
// store.
import { assert, asyncProperty } from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  contend,
  crash,
  databaseStore,
  hash,
  LOCK_MS,
  redisStore,
  runSequence,
  sequences,
  type Store,
} from "../../../harness/models/idempotency.ts";
import { claim, complete, reapIdempotency, release } from "../../../src/domain/idempotency/claims.ts";
import { claimRecord, completeRecord } from "../../../src/store/queries/idempotency-claims.ts";
import type { Tx } from "../../../src/store/engine/tx.ts";
import { record } from "../../../src/domain/core/record.ts";
import { backends, type Backend } from "../../../harness/databases/backends.ts";
import { testServices, vendorOf, type TestServices } from "../../../harness/instances/test-services.ts";
import { ROUNDS } from "../../../harness/rounds.ts";

const env = "live" as const;

const stores: [string, Backend, (fixture: TestServices) => Promise<Store>, number][] = [
  ...backends.map((backend): [string, Backend, typeof databaseStore, number] => [
    backend,
    backend,
    databaseStore,
    2 * ROUNDS,
  ]),
  ["redis", "sqlite", redisStore, ROUNDS],
];

for (const [name, backend, open, runs] of stores) {
  describe(`idempotency on ${name}`, () => {
    let fixture: TestServices;
    let store: Store;
    beforeAll(async () => {
      fixture = await testServices(backend);
      store = await open(fixture);
    });
    afterAll(async () => {
      await store.close();
      await fixture[Symbol.asyncDispose]();
    });

    it("behaves as its model does across clock changes and crashes", async () => {
      await assert(
        // A crash in each: with few runs, chance alone may give none.
        asyncProperty(sequences(15, 16), sequences(15, 16), (before, after) =>
          runSequence(store, [...before, crash, ...after]),
        ),
        { numRuns: runs },
      );
      expect(store.crashes).toBeGreaterThanOrEqual(runs);
    });

    it(`lets exactly one of 64 concurrent claimants execute, ${ROUNDS} times over, over two processes`, async () => {
      const other = await store.beside();
      const claimants = Array.from({ length: 64 }, (_, i) => (i % 2 === 0 ? store.ctx : other));
      for (let round = 0; round < ROUNDS; round++) expect(await contend(claimants, `race ${round}`)).toBeNull();
    });

    it("gives an expired lock to exactly one of 64 claimants", async () => {
      for (let round = 0; round < ROUNDS; round++) {
        const want = { scope_hash: hash(`lapse ${round}`), fingerprint: hash("same"), env };
        await claim(store.ctx, want);
        store.clock.advance(LOCK_MS);
        const responses = await Promise.all(Array.from({ length: 64 }, () => claim(store.ctx, want)));
        expect(responses.filter(({ state, stolen }) => state === "execute" && stolen)).toHaveLength(1);
      }
    });

    it("stores one response of many concurrent completions", async () => {
      const want = { scope_hash: hash("completions"), fingerprint: hash("same"), env };
      const { lock_token } = await claim(store.ctx, want);
      const held = { scope_hash: want.scope_hash, env, lock_token: lock_token ?? "" };
      const responses = await Promise.all(
        Array.from({ length: 16 }, (_, i) =>
          complete(store.ctx, { ...held, status: 200 + i, headers: {}, body: "YQ==" }),
        ),
      );
      expect(responses.every(({ outcome, body_stored }) => outcome === "ok" && body_stored)).toBe(true);
      const stored = (await claim(store.ctx, want)).response?.status;
      expect((await claim(store.ctx, want)).response?.status).toBe(stored);
    });
  });
}

describe("a record that changes between the two reads of a claim", () => {
  const scope = { workspace_id: "w", env, scope_hash: hash("s") };
  const wanted = { fingerprint: hash("f"), token_hash: hash("t"), ttl_ms: 60_000 };
  /** A transaction that finds no record, and whose inserts change nothing but the one with this number. */
  const inserting = (at: number) => {
    let inserts = 0;
    const tx = {
      dialect: "sqlite",
      first: async () => undefined,
      run: async () => (++inserts === at ? 1 : 0),
      tally: async () => ({ n: 0 }),
      upsertAdditive: async () => {},
    };
    return { tx: tx as unknown as Tx, inserts: () => inserts };
  };

  it("is claimed again when it was released in between", async () => {
    const { tx, inserts } = inserting(3);
    expect(await claimRecord(tx, scope, wanted, 0)).toEqual({ state: "execute", stolen: false });
    expect(inserts()).toBe(3);
  });

  it("is an error after five attempts, never an execute", async () => {
    const { tx, inserts } = inserting(6);
    await expect(claimRecord(tx, scope, wanted, 0)).rejects.toThrow("changed during every attempt");
    expect(inserts()).toBe(5);
  });
});

for (const backend of backends) {
  describe(`stored responses on ${backend}`, () => {
    it("keep a running sum of stored bytes through completions, releases and reaping", async () => {
      await using fixture = await testServices(backend);
      const ctx = await vendorOf(fixture.services);
      const { workspace_id } = ctx.actor;
      const sum = async (): Promise<number> =>
        Number((await fixture.sql("select stored_bytes from idempotency_cells"))[0]?.stored_bytes ?? 0);
      const rows = async (): Promise<number> =>
        Number((await fixture.sql("select sum(stored_bytes) as n from idempotency_records"))[0]?.n ?? 0);
      for (let i = 0; i < 5; i++) {
        const scope = { scope_hash: hash(`sum ${i}`), env };
        const { lock_token } = await claim(ctx, { ...scope, fingerprint: hash("f"), ttl_ms: 60_000 });
        await complete(ctx, { ...scope, lock_token: lock_token ?? "", status: 200, headers: {}, body: "YQ==" });
      }
      expect(await sum()).toBe(await rows());
      expect(await sum()).toBeGreaterThan(0);
      // A rejected completion must not change the sum.
      const late = {
        scope_hash: hash("sum 0"),
        env,
        lock_token: "of another claim",
        status: 200,
        headers: {},
        body: "YQ==",
      };
      expect((await complete(ctx, late)).outcome).toBe("completed");
      expect((await complete(ctx, { ...late, scope_hash: hash("unclaimed") })).outcome).toBe("not_found");
      expect(await sum()).toBe(await rows());
      fixture.clock.advance(60_000);
      // An expired record that is claimed again counts until it is released or reaped.
      const scope = { scope_hash: hash("sum 0"), env };
      const { lock_token } = await claim(ctx, { ...scope, fingerprint: hash("g") });
      expect(await reapIdempotency(fixture.services)).toBe(4);
      expect(await sum()).toBe(await rows());
      await release(ctx, { ...scope, lock_token: lock_token ?? "" });
      expect(await sum()).toBe(0);
      expect(workspace_id).toBeTruthy();
    });

    it("have no body beyond their environment's share, and no headers when those do not fit either", async () => {
      await using fixture = await testServices(backend);
      const ctx = await vendorOf(fixture.services);
      const finish = async (name: string, bodyBytes: number, max: number, as = ctx) => {
        const scope = { workspace_id: as.actor.workspace_id, scope_hash: hash(name), env };
        const { lock_token } = await claim(as, { ...scope, fingerprint: hash("f") });
        const completion = {
          token_hash: hash(lock_token ?? ""),
          status: 200,
          ttl_ms: null,
          sealed_full: new Uint8Array(bodyBytes),
          sealed_without_body: new Uint8Array(10),
        };
        return record(fixture.services, (tx) => completeRecord(tx, scope, completion, fixture.clock.now(), max));
      };
      const elsewhere = await vendorOf(fixture.services);
      expect(await finish("fills it", 100, 100, elsewhere)).toEqual({ outcome: "ok", body_stored: true });
      expect(await finish("fits", 100, 120)).toEqual({ outcome: "ok", body_stored: true });
      expect(await finish("too much", 100, 120)).toEqual({ outcome: "ok", body_stored: false });
      expect(await finish("exactly", 10, 120)).toEqual({ outcome: "ok", body_stored: true });
      expect(await finish("full", 10, 120)).toEqual({ outcome: "ok", body_stored: false });
      const stored = await fixture.sql("select stored_bytes from idempotency_records order by stored_bytes");
      expect(stored.map((row) => row.stored_bytes)).toEqual([0, 10, 10, 100, 100]);
    });

    it("take up to one gibibyte per environment, and not a byte more", async () => {
      await using fixture = await testServices(backend);
      const ctx = await vendorOf(fixture.services);
      const finish = async (name: string): Promise<boolean> => {
        const scope = { scope_hash: hash(name), env };
        const { lock_token } = await claim(ctx, { ...scope, fingerprint: hash("f") });
        const response = { status: 200, headers: {}, body: "YQ==" };
        return (await complete(ctx, { ...scope, lock_token: lock_token ?? "", ...response })).body_stored;
      };
      expect(await finish("first")).toBe(true);
      const one = Number((await fixture.sql("select stored_bytes from idempotency_cells"))[0]?.stored_bytes);
      await fixture.sql("update idempotency_cells set stored_bytes = $1", [2 ** 30 - one]);
      expect([await finish("fills it"), await finish("too much")]).toEqual([true, false]);
      expect(Number((await fixture.sql("select stored_bytes from idempotency_cells"))[0]?.stored_bytes)).toBe(2 ** 30);
    });

    it("contain neither the body nor the token in plain text", async () => {
      await using fixture = await testServices(backend);
      const ctx = await vendorOf(fixture.services);
      const scope = { scope_hash: hash("clear"), env };
      const { lock_token } = await claim(ctx, { ...scope, fingerprint: hash("f") });
      const body = Buffer.from("PLAINTEXT-BODY").toString("base64");
      await complete(ctx, {
        ...scope,
        lock_token: lock_token ?? "",
        status: 200,
        headers: { secret: "PLAINTEXT-HEADER" },
        body,
      });
      const [row] = await fixture.sql("select token_hash, sealed_response from idempotency_records");
      expect(row?.token_hash).toBe(hash(lock_token ?? ""));
      const sealed = Buffer.from(row?.sealed_response as unknown as Uint8Array).toString("latin1");
      expect(sealed).not.toContain("PLAINTEXT");
    });
  });
}
