// A small model of idempotency: the expected result of every claim, completion, release and heartbeat, over time and
// crashes. Every claim store is compared with it.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import * as fc from "fast-check";
import { RedisClaims } from "../../src/ratelimit/redis/claims.ts";
import type { SecretKeyActor } from "../../src/domain/core/actor.ts";
import type { Ctx, Services } from "../../src/domain/core/context.ts";
import { claim, complete, heartbeat, release } from "../../src/domain/idempotency/claims.ts";
import type { ClaimStore } from "../../src/kernel/idempotency.ts";
import { ownPrefix, startDurableRedis, type DurableRedis } from "../databases/redis.ts";
import { until } from "../waiting.ts";
import { vendorOf, type TestServices, type TestClock } from "../instances/services.ts";

export const hash = (text: string): string => createHash("sha256").update(text).digest("hex");
export const LOCK_MS = 30_000;

export type Store = {
  /** Crashes so far. */
  crashes: number;
  ctx: Ctx<SecretKeyActor>;
  clock: TestClock;
  /** Loses everything that is not durable, and reopens. */
  crash(): Promise<void>;
  /** Another process on the same store. */
  beside(): Promise<Ctx<SecretKeyActor>>;
  close(): Promise<void>;
};

/** Claims in the database of open services; the caller closes those. */
export async function databaseStore(first: TestServices): Promise<Store> {
  const opened: TestServices[] = [];
  let current: TestServices | undefined;
  const { actor } = await vendorOf(first.services);
  const more = async (): Promise<TestServices> => {
    const next = await first.another();
    opened.push(next);
    return next;
  };
  const store: Store = {
    crashes: 0,
    ctx: { services: first.services, actor },
    clock: first.clock,
    crash: async () => {
      const dead = current;
      current = await more();
      store.ctx = { services: current.services, actor };
      if (dead) opened.splice(opened.indexOf(dead), 1);
      await dead?.services.store.close(); // frees its connections
    },
    beside: async () => ({ services: (await more()).services, actor }),
    close: async () => {
      for (const one of opened) await one.services.store.close();
    },
  };
  return store;
}

/** Claims in their own Redis that syncs every write. */
export async function redisStore(fixture: TestServices): Promise<Store> {
  const redis: DurableRedis = await startDurableRedis();
  const { actor } = await vendorOf(fixture.services);
  const prefix = ownPrefix();
  const opened: ClaimStore[] = [];
  const openedServices: Services[] = [];
  const open = async (): Promise<Services> => {
    const { claims, refused } = await RedisClaims.open({ urls: [redis.url], prefix, now: () => fixture.clock.now() });
    assert.equal(refused, null);
    opened.push(claims);
    openedServices.push({ ...fixture.services, claims });
    return openedServices.at(-1) as Services;
  };
  const store: Store = {
    crashes: 0,
    ctx: { services: await open(), actor },
    clock: fixture.clock,
    crash: async () => {
      await redis.kill();
      await redis.start();
      const scope = { scope_hash: hash("probe"), env: "live" as const, lock_token: "x".repeat(32) };
      // Wait for every connection: a 503 for a claim would be a valid response, but not what is tested here.
      for (const services of openedServices) {
        await until(() =>
          heartbeat({ services, actor }, scope).then(
            () => true,
            () => false,
          ),
        );
      }
    },
    beside: async () => ({ services: await open(), actor }),
    close: async () => {
      for (const one of opened) one.close();
      await redis.stop();
    },
  };
  return store;
}

/** The expected records. */
type Model = {
  now: number;
  records: Map<
    string,
    { fingerprint: string; holder: number; lease: number; ends: number; ttl: number; status: number | null }
  >;
  /** Every token ever issued, with its scope. */
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
          if (at && at.fingerprint !== print) assert.equal(answer.state, "mismatch");
          else if (at && at.status !== null) {
            assert.equal(answer.state, "replay");
            assert.equal(answer.response?.status, at.status);
            assert.equal((answer.response?.headers as { n?: string } | undefined)?.n, String(at.holder));
          } else if (at && at.lease > model.now) {
            const { state, retry_after_ms, lock_token } = answer;
            const wait = Math.max(100, at.lease - model.now);
            assert.deepEqual([state, retry_after_ms, lock_token], ["in_progress", wait, null]);
          } else {
            assert.deepEqual([answer.state, answer.stolen], ["execute", at !== undefined]);
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
            assert.equal(answer.outcome, repeated ? "ok" : outcome);
            assert.equal(answer.body_stored, repeated || outcome === "ok");
            if (outcome === "ok" && at) Object.assign(at, { status, ends: model.now + at.ttl });
          } else if (verb === "release") {
            assert.equal((await release(ctx, held)).outcome, outcome);
            if (outcome === "ok") model.records.delete(scope);
          } else {
            assert.equal((await heartbeat(ctx, held)).outcome, outcome);
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

export const crash: Command = {
  check: () => true,
  toString: () => "crash",
  run: async (_model, store) => {
    store.crashes++;
    await store.crash();
  },
};

/** Longer than the life of any claim of an earlier sequence. */
const APART_MS = 700_000_000;

/** Runs a sequence of commands on a store; rejects at the first result that differs from the model. */
export async function runSequence(store: Store, sequence: Iterable<Command>): Promise<void> {
  store.clock.advance(APART_MS);
  const setup = () => ({ model: { now: store.clock.now(), records: new Map(), tokens: [] }, real: store });
  await fc.asyncModelRun(setup, sequence);
}

/** Sequences of up to `maxCommands` commands; one in `crashOneIn` is a crash. */
export function sequences(maxCommands: number, crashOneIn: number): fc.Arbitrary<Iterable<Command>> {
  const often = Array.from({ length: Math.ceil((crashOneIn - 1) / commands.length) }, () => commands).flat();
  return fc.commands([...often, fc.constant(crash)], { maxCommands, size: "max" }); // by default at most ten
}

/** Of many concurrent claimants exactly one may execute. Returns the violation, or null. */
export async function contend(claimants: readonly Ctx<SecretKeyActor>[], name: string): Promise<string | null> {
  const want = { scope_hash: hash(name), fingerprint: hash("same"), env };
  const answers = await Promise.all(claimants.map((ctx) => claim(ctx, want)));
  const count = (state: string): number => answers.filter((answer) => answer.state === state).length;
  const [execute, waiting] = [count("execute"), count("in_progress")];
  return execute === 1 && waiting === claimants.length - 1 ? null : `${execute} execute, ${waiting} wait`;
}
