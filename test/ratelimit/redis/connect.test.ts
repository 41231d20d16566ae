// A Redis that is there but cannot be used, by itself or for the user of the URL: the counters say so, count in process
// meanwhile, and use it again without a restart. Every server here is started by this file.
import { afterEach, describe, expect, it } from "vitest";
import { FallbackCounter } from "../../../src/ratelimit/fallback.ts";
import { RedisCounter } from "../../../src/ratelimit/redis/counter.ts";
import { hasRedis, type OwnRedis, startRedis } from "../../../harness/databases/redis.ts";
import { ask, sliding } from "../../../harness/ratelimit/counters.ts";
import { memoryCounter } from "../../../harness/ratelimit/memory-counter.ts";
import { turns, until } from "../../../harness/waiting.ts";

const rule = sliding(1_000_000, 60_000);
const SILENT_MAX_MS = 300;

let stack = new AsyncDisposableStack();
afterEach(async () => {
  await stack.disposeAsync();
  stack = new AsyncDisposableStack();
});

async function start(args: string[] = []): Promise<OwnRedis> {
  const own = (await startRedis(args))!;
  stack.defer(() => own.stop());
  return own;
}

function fallback(url: string) {
  const redis = new RedisCounter({ urls: [url], timeoutMs: 100, silentMaxMs: SILENT_MAX_MS });
  const now = () => Date.now();
  const changes: unknown[] = [];
  const onChange = (error: unknown) => changes.push(error);
  const counter = new FallbackCounter({ redis, memory: memoryCounter(now), now, onFailure: "local", onChange });
  stack.defer(() => counter.close());
  return { counter, redis, changes };
}

const decidesIn = (store: string, counter: FallbackCounter) =>
  until(
    async () =>
      (await counter.check(ask([rule]))).store === store && counter.redisState().ready === (store === "redis"),
  );

describe.runIf(hasRedis())("a Redis", () => {
  it("that stalls for longer than the socket timeout while leases are returned is used again afterwards", async () => {
    const own = await start();
    const { counter, redis, changes } = fallback(own.url);
    await decidesIn("redis", counter);
    const lease = await counter.lease({ ...ask([rule]), want: 10 });
    own.signal("SIGSTOP");
    const returned = counter.returnLease("w1", lease.lease_id!, 4);
    await turns(2); // sent
    await until(() => !redis.connected);
    expect(await returned).toBe(0);
    own.signal("SIGCONT");
    await decidesIn("redis", counter);
    const again = await counter.lease({ ...ask([rule]), want: 10 });
    expect(await counter.returnLease("w1", again.lease_id!, 4)).toBe(4);
    expect(changes).toEqual(["timeout", null]);
  });
});
