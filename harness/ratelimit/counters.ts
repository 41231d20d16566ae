// Shared by the counter tests: rules, requests, and both stores by name.
import { afterAll } from "vitest";
import type { CheckRequest, Counter } from "../../src/ratelimit/counter.ts";
import { RedisCounter } from "../../src/ratelimit/redis/counter.ts";
import type { RateLimit } from "../../src/kernel/ratelimit/rule.ts";
import { deleteKeys, findRedis, hasRedis, ownPrefix } from "../databases/redis.ts";
import { DEADLINE_MS } from "../waiting.ts";
import { memoryCounter } from "./memory-counter.ts";

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

/** `counters` bounds a cell. */
type StoreMaker = {
  name: "memory" | "redis";
  make: (now: () => number, counters?: number) => Promise<Counter>;
};

/** The stores to test: memory always, and Redis, which the first test that needs it starts. */
export function stores(): StoreMaker[] {
  const makers: StoreMaker[] = [
    { name: "memory", make: async (now, counters) => memoryCounter(now, counters ? { bounds: { counters } } : {}) },
  ];
  if (!hasRedis()) return makers;
  let starting: ReturnType<typeof findRedis> | undefined;
  const prefix = ownPrefix();
  const open: RedisCounter[] = [];
  afterAll(async () => {
    for (const counter of open) counter.close();
    const redis = await starting;
    if (!redis) return;
    await deleteKeys(redis.url, prefix);
    await redis.stop();
  });
  makers.push({
    name: "redis",
    make: async (now, countersPerCell) => {
      const redis = await (starting ??= findRedis());
      const counter = new RedisCounter({
        urls: [redis!.url],
        prefix: `${prefix}:${open.length}`,
        timeoutMs: DEADLINE_MS,
        now,
        ...(countersPerCell && { countersPerCell }),
      });
      open.push(counter);
      if (!(await counter.ready(DEADLINE_MS))) throw new Error("Redis did not connect");
      return counter;
    },
  });
  return makers;
}
