// oxlint-disable vitest/no-standalone-expect -- commands of the model run inside a test
// Idempotency held against a small model, through clocks and crashes, and under contention, on every store.
import { createHash } from "node:crypto";
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { RedisClaims } from "../../src/counter/idempotency.ts";
import type { SecretKeyActor } from "../../src/domain/actor.ts";
import type { Ctx, Rack } from "../../src/domain/context.ts";
import { claim, complete, heartbeat, reapIdempotency, release } from "../../src/domain/idempotency.ts";
import type { ClaimStore } from "../../src/kernel/idempotency.ts";
import { completeRecord } from "../../src/store/idempotency.ts";
import { record } from "../../src/domain/mutate.ts";
import { backends } from "../support/backends.ts";
import { startDurableRedis, type DurableRedis } from "../support/claim-stores.ts";
import { rackLite, vendorOf, type RackLite, type TestClock } from "../support/rack-lite.ts";
import { ownPrefix, until } from "../support/redis.ts";

const hash = (text: string): string => createHash("sha256").update(text).digest("hex");
const LOCK_MS = 30_000;

type Store = {
  ctx: Ctx<SecretKeyActor>;
  clock: TestClock;
  /** Loses everything that was not durable, and opens again. */
  crash(): Promise<void>;
  /** Another process on the same store. */
  beside(): Promise<Ctx<SecretKeyActor>>;
  close(): Promise<void>;
};

async function databaseStore(back: "sqlite" | "postgres"): Promise<Store> {
  const first = await rackLite(back);
  const opened: RackLite[] = [];
  const { actor } = await vendorOf(first.rack);
  const more = async (): Promise<Rack> => {
    const next = await first.another();
    opened.push(next);
    return next.rack;
  };
  const store: Store = {
    ctx: { rack: first.rack, actor },
    clock: first.clock,
    crash: async () => {
      const dead = opened.pop();
      store.ctx = { rack: await more(), actor };
      await dead?.rack.store.close(); // it has nothing left to say; its connections are needed
    },
    beside: async () => ({ rack: await more(), actor }),
    close: async () => {
      for (const one of opened) await one.rack.store.close();
      await first[Symbol.asyncDispose]();
    },
  };
  return store;
}

async function redisStore(): Promise<Store> {
  const redis: DurableRedis = await startDurableRedis();
  const lite = await rackLite("sqlite");
  const { actor } = await vendorOf(lite.rack);
  const prefix = ownPrefix();
  const opened: ClaimStore[] = [];
  const open = async (): Promise<Rack> => {
    const { claims, refused } = await RedisClaims.open({ urls: [redis.url], prefix, now: () => lite.clock.now() });
    expect(refused).toBeNull();
    opened.push(claims);
    return { ...lite.rack, claims };
  };
  const store: Store = {
    ctx: { rack: await open(), actor },
    clock: lite.clock,
    crash: async () => {
      await redis.kill();
      await redis.start();
      const scope = { scope_hash: hash("probe"), env: "live" as const, lock_token: "x".repeat(32) };
      await until(() =>
        heartbeat(store.ctx, scope).then(
          () => true,
          () => false,
        ),
      );
    },
    beside: async () => ({ rack: await open(), actor }),
    close: async () => {
      for (const one of opened) one.close();
      await redis.stop();
      await lite[Symbol.asyncDispose]();
    },
  };
  return store;
}

/** What a record must be, told without any store. */
type Model = {
  now: number;
  records: Map<
    string,
    { fingerprint: string; holder: number; lease: number; ends: number; ttl: number; status: number | null }
  >;
  /** Every token ever handed out, with its scope. */
  tokens: { scope: string; text: string }[];
};

const found = (model: Model, scope: string) => {
  const at = model.records.get(scope);
  return at && at.ends > model.now ? at : undefined;
};

const outcomeOf = (model: Model, scope: string, token: number): "ok" | "not_found" | "completed" | "lock_lost" => {
  const at = found(model, scope);
  if (!at) return "not_found";
  if (at.status !== null) return "completed";
  return at.holder === token ? "ok" : "lock_lost";
};

type Command = fc.AsyncCommand<Model, Store>;
const env = "live" as const;

const commands = [
  fc
    .record({
      scope: fc.constantFrom("a", "b"),
      print: fc.constantFrom("x", "y"),
      ttl: fc.constantFrom(60_000, 120_000),
    })
    .map(
      ({ scope, print, ttl }): Command => ({
        check: () => true,
        toString: () => `claim(${scope}, ${print}, ${ttl})`,
        run: async (model, { ctx }) => {
          const answer = await claim(ctx, { scope_hash: hash(scope), fingerprint: hash(print), env, ttl_ms: ttl });
          const at = found(model, scope);
          if (at && at.fingerprint !== print) expect(answer.state).toBe("mismatch");
          else if (at && at.status !== null) {
            expect(answer).toMatchObject({
              state: "replay",
              response: { status: at.status, headers: { n: String(at.holder) } },
            });
          } else if (at && at.lease > model.now) {
            const retry_after_ms = Math.max(100, at.lease - model.now);
            expect(answer).toMatchObject({ state: "in_progress", retry_after_ms, lock_token: null });
          } else {
            expect(answer).toMatchObject({ state: "execute", stolen: at !== undefined });
            const holder = model.tokens.push({ scope, text: answer.lock_token ?? "" }) - 1;
            const lease = model.now + LOCK_MS;
            model.records.set(scope, { fingerprint: print, holder, lease, ends: model.now + ttl, ttl, status: null });
          }
        },
      }),
    ),
  fc
    .record({
      pick: fc.nat(),
      verb: fc.constantFrom("complete", "release", "heartbeat"),
      status: fc.integer({ min: 200, max: 599 }),
    })
    .map(
      ({ pick, verb, status }): Command => ({
        check: (model) => model.tokens.length > 0,
        toString: () => `${verb}(${pick}, ${status})`,
        run: async (model, { ctx }) => {
          const token = pick % model.tokens.length;
          const { scope, text } = model.tokens[token] as Model["tokens"][number];
          const held = { scope_hash: hash(scope), env, lock_token: text };
          const outcome = outcomeOf(model, scope, token);
          const at = found(model, scope);
          if (verb === "complete") {
            const body = Buffer.from(text).toString("base64");
            const answer = await complete(ctx, { ...held, status, headers: { n: String(token) }, body });
            const repeated = outcome === "completed" && at?.holder === token;
            expect(answer.outcome).toBe(repeated ? "ok" : outcome);
            expect(answer.body_stored).toBe(repeated || outcome === "ok");
            if (outcome === "ok" && at) Object.assign(at, { status, ends: model.now + at.ttl });
          } else if (verb === "release") {
            expect((await release(ctx, held)).outcome).toBe(outcome);
            if (outcome === "ok") model.records.delete(scope);
          } else {
            expect((await heartbeat(ctx, held)).outcome).toBe(outcome);
            const lease = model.now + LOCK_MS;
            if (outcome === "ok" && at) Object.assign(at, { lease, ends: Math.max(at.ends, lease) });
          }
        },
      }),
    ),
  fc.constantFrom(1, 10_000, 29_999, 30_000, 60_000, 120_000).map(
    (ms): Command => ({
      check: () => true,
      toString: () => `advance(${ms})`,
      run: async (model, { clock }) => {
        model.now += ms;
        clock.advance(ms);
      },
    }),
  ),
];

let crashes = 0;

const crash: Command = {
  check: () => true,
  toString: () => "crash",
  run: async (_model, store) => {
    crashes++;
    await store.crash();
  },
};

const stores: [string, () => Promise<Store>, number][] = [
  ...backends.map((back): [string, () => Promise<Store>, number] => [back, () => databaseStore(back), 40]),
  ["redis", redisStore, 25],
];

for (const [name, open, runs] of stores) {
  describe(`idempotency on ${name}`, () => {
    let store: Store;
    beforeAll(async () => {
      store = await open();
    });
    afterAll(() => store.close());

    it("answers as its model does through clocks and crashes", async () => {
      crashes = 0;
      const sequences = fc.commands([...commands, fc.constant(crash)], { maxCommands: 30 });
      await fc.assert(
        fc.asyncProperty(sequences, async (sequence) => {
          store.clock.advance(700_000_000); // everything of the last sequence has expired
          await fc.asyncModelRun(
            () => ({ model: { now: store.clock.now(), records: new Map(), tokens: [] }, real: store }),
            sequence,
          );
        }),
        { numRuns: Number(process.env.KEYRACK_MODEL_RUNS ?? runs) },
      );
      expect(crashes).toBeGreaterThan(runs / 2);
    }, 120_000);

    it("gives exactly one execute to 64 claimants at once, a hundred times, over two processes", async () => {
      const other = await store.beside();
      const rounds = Number(process.env.KEYRACK_CLAIM_ROUNDS ?? 100);
      for (let round = 0; round < rounds; round++) {
        const want = { scope_hash: hash(`race ${round}`), fingerprint: hash("same"), env };
        const answers = await Promise.all(
          Array.from({ length: 64 }, (_, i) => claim(i % 2 === 0 ? store.ctx : other, want)),
        );
        const states = Map.groupBy(answers, ({ state }) => state);
        expect(states.get("execute")?.length).toBe(1);
        expect(states.get("in_progress")?.length).toBe(63);
      }
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

for (const back of backends) {
  describe(`stored answers on ${back}`, () => {
    it("keeps a running sum of stored bytes that follows completions, releases and reaping", async () => {
      await using lite = await rackLite(back);
      const ctx = await vendorOf(lite.rack);
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
      lite.clock.advance(60_000);
      // An expired record that is claimed anew still has its bytes booked, until it is released or reaped.
      const scope = { scope_hash: hash("sum 0"), env };
      const { lock_token } = await claim(ctx, { ...scope, fingerprint: hash("g") });
      expect(await reapIdempotency(lite.rack)).toBe(4);
      expect(await sum()).toBe(await rows());
      await release(ctx, { ...scope, lock_token: lock_token ?? "" });
      expect(await sum()).toBe(0);
      expect(workspace_id).toBeTruthy();
    });

    it("keeps no body beyond the workspace's quota, and no headers when even they do not fit", async () => {
      await using lite = await rackLite(back);
      const ctx = await vendorOf(lite.rack);
      const finish = async (name: string, bodyBytes: number, max: number) => {
        const scope = { workspace_id: ctx.actor.workspace_id, scope_hash: hash(name), env };
        const { lock_token } = await claim(ctx, { ...scope, fingerprint: hash("f") });
        const completion = {
          token_hash: hash(lock_token ?? ""),
          status: 200,
          ttl_ms: null,
          whole: new Uint8Array(bodyBytes),
          bare: new Uint8Array(10),
        };
        return record(lite.rack, (tx) => completeRecord(tx, scope, completion, lite.clock.now(), max));
      };
      expect(await finish("fits", 100, 120)).toEqual({ outcome: "ok", body_stored: true });
      expect(await finish("too much", 100, 120)).toEqual({ outcome: "ok", body_stored: false });
      expect(await finish("exactly", 10, 120)).toEqual({ outcome: "ok", body_stored: true });
      expect(await finish("full", 10, 120)).toEqual({ outcome: "ok", body_stored: false });
      const stored = await lite.sql("select stored_bytes from idempotency_records order by stored_bytes");
      expect(stored.map((row) => row.stored_bytes)).toEqual([0, 10, 10, 100]);
    });

    it("stores neither the body nor the token in the clear", async () => {
      await using lite = await rackLite(back);
      const ctx = await vendorOf(lite.rack);
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
