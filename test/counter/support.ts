// What the counter tests share: a seeded random source, a clock to turn by hand, a request, and both stores by name.
import { afterAll } from "vitest";
import type { CheckRequest, Counter, Verdict } from "../../src/counter/counter.ts";
import { MemoryCounter } from "../../src/counter/memory.ts";
import { RedisCounter } from "../../src/counter/redis.ts";
import type { RateLimit } from "../../src/kernel/limits.ts";
import { deleteKeys, findRedis, ownPrefix } from "../support/redis.ts";

/** A moment in 2027 that is no window's boundary. */
export const START = 1_812_345_678_901;

/** mulberry32: the same numbers for the same seed on every machine. */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let x = Math.imul(state ^ (state >>> 15), state | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) / 4_294_967_296;
  };
}

export function between(random: () => number, low: number, high: number): number {
  return low + Math.floor(random() * (high - low + 1));
}

export function pick<T>(random: () => number, from: readonly T[]): T {
  return from[Math.floor(random() * from.length)]!;
}

export function handClock(start = START): { now: () => number; set(t: number): void; pass(ms: number): void } {
  let t = start;
  return {
    now: () => t,
    set: (to) => (t = to),
    pass: (ms) => (t += ms),
  };
}

export const sliding = (limit: number, window_ms: number, more: Partial<RateLimit> = {}): RateLimit => ({
  id: "rule",
  limit,
  window_ms,
  algorithm: "sliding",
  scope: "key",
  ...more,
});

export const fixed = (limit: number, window_ms: number, more: Partial<RateLimit> = {}): RateLimit =>
  sliding(limit, window_ms, { algorithm: "fixed", ...more });

export function ask(limits: RateLimit[], more: Partial<CheckRequest> = {}): CheckRequest {
  return { workspace_id: "w1", project_id: "p1", env: "live", key_id: "k1", tenant_id: "t1", cost: 1, limits, ...more };
}

/** A verdict without the one field in which two stores may differ. */
export function decision(verdict: Verdict): Omit<Verdict, "store"> {
  const { store: _, ...rest } = verdict;
  return rest;
}

export type StoreMaker = { name: "memory" | "redis"; make: (now: () => number) => Promise<Counter> };

/** The stores a contract is held against: memory always, Redis wherever one can be found. */
export async function stores(): Promise<StoreMaker[]> {
  const makers: StoreMaker[] = [{ name: "memory", make: async (now) => new MemoryCounter({ now }) }];
  const redis = await findRedis();
  if (redis === null) return makers;
  const prefix = ownPrefix();
  const open: RedisCounter[] = [];
  afterAll(async () => {
    for (const counter of open) counter.close();
    await deleteKeys(redis.url, prefix);
    await redis.stop();
  });
  makers.push({
    name: "redis",
    make: async (now) => {
      const counter = new RedisCounter({
        urls: [redis.url],
        prefix: `${prefix}:${open.length}`,
        timeoutMs: 20_000,
        now,
      });
      open.push(counter);
      if (!(await counter.ready(5_000))) throw new Error("Redis did not connect");
      return counter;
    },
  });
  return makers;
}
