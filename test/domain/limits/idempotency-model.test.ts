// Idempotency held against a small model, through clocks and crashes, and under contention, on every store.
import { assert, asyncProperty } from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  contend,
  databaseStore,
  hash,
  LOCK_MS,
  redisStore,
  runSequence,
  sequences,
  type Store,
} from "../../../harness/models/idempotency.ts";
import { claim, complete, reapIdempotency, release } from "../../../src/domain/limits/idempotency.ts";
import { claimRecord, completeRecord } from "../../../src/store/queries/idempotency.ts";
import type { Tx } from "../../../src/store/engine/statement.ts";
import { record } from "../../../src/domain/core/record.ts";
import { backends, type Backend } from "../../../harness/databases/backends.ts";
import { testServices, vendorOf, type TestServices } from "../../../harness/instances/test-services.ts";

const env = "live" as const;

const stores: [string, Backend, (lite: TestServices) => Promise<Store>, number][] = [
  ...backends.map((back): [string, Backend, typeof databaseStore, number] => [back, back, databaseStore, 40]),
  ["redis", "sqlite", redisStore, 25],
];

for (const [name, back, open, runs] of stores) {
  describe(`idempotency on ${name}`, () => {
    let lite: TestServices;
    let store: Store;
    beforeAll(async () => {
      lite = await testServices(back);
      store = await open(lite);
    });
    afterAll(async () => {
      await store.close();
      await lite[Symbol.asyncDispose]();
    });

    it("answers as its model does through clocks and crashes", async () => {
      await assert(
        asyncProperty(sequences(30, 4), (sequence) => runSequence(store, sequence)),
        { numRuns: runs },
      );
      expect(store.crashes).toBeGreaterThan(runs / 2);
    }, 120_000);

    it("gives exactly one execute to 64 claimants at once, a hundred times, over two processes", async () => {
      const other = await store.beside();
      const claimants = Array.from({ length: 64 }, (_, i) => (i % 2 === 0 ? store.ctx : other));
      for (let round = 0; round < 100; round++) expect(await contend(claimants, `race ${round}`)).toBeNull();
    }, 120_000);

    it("gives a lapsed lock to exactly one of 64 claimants", async () => {
      for (let round = 0; round < 10; round++) {
        const want = { scope_hash: hash(`lapse ${round}`), fingerprint: hash("same"), env };
        await claim(store.ctx, want);
        store.clock.advance(LOCK_MS);
        const answers = await Promise.all(Array.from({ length: 64 }, () => claim(store.ctx, want)));
        expect(answers.filter(({ state, stolen }) => state === "execute" && stolen)).toHaveLength(1);
      }
    });

    it("keeps one answer of many completions at once", async () => {
      const want = { scope_hash: hash("completions"), fingerprint: hash("same"), env };
      const { lock_token } = await claim(store.ctx, want);
      const held = { scope_hash: want.scope_hash, env, lock_token: lock_token ?? "" };
      const answers = await Promise.all(
        Array.from({ length: 16 }, (_, i) =>
          complete(store.ctx, { ...held, status: 200 + i, headers: {}, body: "YQ==" }),
        ),
      );
      expect(answers.every(({ outcome, body_stored }) => outcome === "ok" && body_stored)).toBe(true);
      const kept = (await claim(store.ctx, want)).response?.status;
      expect((await claim(store.ctx, want)).response?.status).toBe(kept);
    });
  });
}

describe("a record that changes between a claim's two looks at it", () => {
  const scope = { workspace_id: "w", env, scope_hash: hash("s") };
  const wanted = { fingerprint: hash("f"), token_hash: hash("t"), ttl_ms: 60_000 };
  /** A transaction whose statements answer these rows, one after another, and then none. */
  const answering = (...rows: unknown[]) => {
    let looks = 0;
    const first = async () => rows[looks++];
    return { tx: { dialect: "sqlite", first } as unknown as Tx, looks: () => looks };
  };

  it("is tried again when it was released in between", async () => {
    const { tx, looks } = answering(undefined, undefined, undefined, undefined, { stolen: 0 });
    expect(await claimRecord(tx, scope, wanted, 0)).toEqual({ state: "execute", stolen: false });
    expect(looks()).toBe(5);
  });

  it("is nobody's after five tries: an error, never an execute", async () => {
    const { tx, looks } = answering();
    await expect(claimRecord(tx, scope, wanted, 0)).rejects.toThrow("keeps changing");
    expect(looks()).toBe(10);
  });
});

for (const back of backends) {
  describe(`stored answers on ${back}`, () => {
    it("keeps a running sum of stored bytes that follows completions, releases and reaping", async () => {
      await using lite = await testServices(back);
      const ctx = await vendorOf(lite.services);
      const { workspace_id } = ctx.actor;
      const sum = async (): Promise<number> =>
        Number((await lite.sql("select stored_bytes from idempotency_quotas"))[0]?.stored_bytes ?? 0);
      const rows = async (): Promise<number> =>
        Number((await lite.sql("select sum(stored_bytes) as n from idempotency_records"))[0]?.n ?? 0);
      for (let i = 0; i < 5; i++) {
        const scope = { scope_hash: hash(`sum ${i}`), env };
        const { lock_token } = await claim(ctx, { ...scope, fingerprint: hash("f"), ttl_ms: 60_000 });
        await complete(ctx, { ...scope, lock_token: lock_token ?? "", status: 200, headers: {}, body: "YQ==" });
      }
      expect(await sum()).toBe(await rows());
      expect(await sum()).toBeGreaterThan(0);
      // Whoever may not complete leaves nothing booked.
      const late = { scope_hash: hash("sum 0"), env, lock_token: "another's", status: 200, headers: {}, body: "YQ==" };
      expect((await complete(ctx, late)).outcome).toBe("completed");
      expect((await complete(ctx, { ...late, scope_hash: hash("nobody's") })).outcome).toBe("not_found");
      expect(await sum()).toBe(await rows());
      lite.clock.advance(60_000);
      // An expired record that is claimed anew still has its bytes booked, until it is released or reaped.
      const scope = { scope_hash: hash("sum 0"), env };
      const { lock_token } = await claim(ctx, { ...scope, fingerprint: hash("g") });
      expect(await reapIdempotency(lite.services)).toBe(4);
      expect(await sum()).toBe(await rows());
      await release(ctx, { ...scope, lock_token: lock_token ?? "" });
      expect(await sum()).toBe(0);
      expect(workspace_id).toBeTruthy();
    });

    it("keeps no body beyond the workspace's quota, and no headers when even they do not fit", async () => {
      await using lite = await testServices(back);
      const ctx = await vendorOf(lite.services);
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
        return record(lite.services, (tx) => completeRecord(tx, scope, completion, lite.clock.now(), max));
      };
      const elsewhere = await vendorOf(lite.services);
      expect(await finish("fills it", 100, 100, elsewhere)).toEqual({ outcome: "ok", body_stored: true });
      expect(await finish("fits", 100, 120)).toEqual({ outcome: "ok", body_stored: true });
      expect(await finish("too much", 100, 120)).toEqual({ outcome: "ok", body_stored: false });
      expect(await finish("exactly", 10, 120)).toEqual({ outcome: "ok", body_stored: true });
      expect(await finish("full", 10, 120)).toEqual({ outcome: "ok", body_stored: false });
      const stored = await lite.sql("select stored_bytes from idempotency_records order by stored_bytes");
      expect(stored.map((row) => row.stored_bytes)).toEqual([0, 10, 10, 100, 100]);
    });

    it("stores a gibibyte of answers a workspace, and not a byte more", async () => {
      await using lite = await testServices(back);
      const ctx = await vendorOf(lite.services);
      const finish = async (name: string): Promise<boolean> => {
        const scope = { scope_hash: hash(name), env };
        const { lock_token } = await claim(ctx, { ...scope, fingerprint: hash("f") });
        const answer = { status: 200, headers: {}, body: "YQ==" };
        return (await complete(ctx, { ...scope, lock_token: lock_token ?? "", ...answer })).body_stored;
      };
      expect(await finish("first")).toBe(true);
      const one = Number((await lite.sql("select stored_bytes from idempotency_quotas"))[0]?.stored_bytes);
      await lite.sql("update idempotency_quotas set stored_bytes = $1", [2 ** 30 - one]);
      expect([await finish("fills it"), await finish("too much")]).toEqual([true, false]);
      expect(Number((await lite.sql("select stored_bytes from idempotency_quotas"))[0]?.stored_bytes)).toBe(2 ** 30);
    });

    it("stores neither the body nor the token in the clear", async () => {
      await using lite = await testServices(back);
      const ctx = await vendorOf(lite.services);
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
      const [row] = await lite.sql("select token_hash, sealed_response from idempotency_records");
      expect(row?.token_hash).toBe(hash(lock_token ?? ""));
      const sealed = Buffer.from(row?.sealed_response as unknown as Uint8Array).toString("latin1");
      expect(sealed).not.toContain("PLAINTEXT");
    });
  });
}
