// Opens the rate-limit counters of this process: Redis if it is configured, in memory otherwise and as its fallback.
import type { Counter, SharedLeases } from "../../ratelimit/counter.ts";
import { FallbackCounter, NO_REDIS, type RedisState } from "../../ratelimit/fallback.ts";
import { MemoryCounter, type MemoryOptions } from "../../ratelimit/memory/counter.ts";

const REDIS_READY_WITHIN_MS = 1_000;

/** `counter` is the one to ask; `memory` is always present, since it is also the fallback for Redis. */
export type Counters = {
  readonly counter: Counter;
  readonly memory: MemoryCounter;
  /** Null without Redis. */
  readonly sharedLeases: SharedLeases | null;
  redisState(): RedisState;
};

type CountersOptions = MemoryOptions & {
  redisUrls: readonly string[] | null;
  onRedisFailure: "local" | "error";
  onRedisChange: (error: RedisState["error"]) => void;
  /** Tests only: Redis uses this instead of its own clock. */
  redisNow?: (() => number) | undefined;
  redisTimeoutMs?: number | undefined;
};

/** A Redis that does not respond in time is used as soon as it does. */
export async function openCounters(options: CountersOptions): Promise<Counters> {
  const { now, redisUrls, onRedisFailure, onRedisChange, redisNow, redisTimeoutMs } = options;
  const memory = new MemoryCounter(options);
  if (!redisUrls) return { counter: memory, memory, sharedLeases: null, redisState: () => NO_REDIS };
  const { RedisCounter } = await import("../../ratelimit/redis/counter.ts"); // lazy: most instances never load ioredis
  const redis = new RedisCounter({
    urls: redisUrls,
    timeoutMs: redisTimeoutMs,
    countersPerCell: options.bounds.counters,
    ...(redisNow && { now: redisNow }),
  });
  const counter = new FallbackCounter({ redis, memory, now, onFailure: onRedisFailure, onChange: onRedisChange });
  await counter.connect(REDIS_READY_WITHIN_MS);
  return { counter, memory, sharedLeases: counter, redisState: () => counter.redisState() };
}
