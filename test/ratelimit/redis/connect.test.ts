// A Redis that is there but cannot be used, by itself or for the user of the URL: the counters say so, count in process
// meanwhile, and use it again without a restart. Every server here is started by this file.
import { Redis } from "ioredis";
import { afterEach, describe, expect, it, vi } from "vitest";
import { FallbackCounter } from "../../../src/ratelimit/fallback.ts";
import { RedisClaims } from "../../../src/ratelimit/redis/claims.ts";
import { RedisCounter } from "../../../src/ratelimit/redis/counter.ts";
import { hasRedis, type OwnRedis, startRedis } from "../../../harness/databases/redis.ts";
import { readText } from "../../../harness/repository.ts";
import { ask, sliding } from "../../../harness/ratelimit/counters.ts";
import { memoryCounter } from "../../../harness/ratelimit/memory-counter.ts";
import { DEADLINE_MS, turns, until } from "../../../harness/waiting.ts";

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

function fallback(url: string, { timeoutMs = 100, silentMaxMs = SILENT_MAX_MS } = {}) {
  const redis = new RedisCounter({ urls: [url], timeoutMs, silentMaxMs });
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

/** A server with a user of its own, and a way to change what that may do. */
async function startWithUser(...rules: string[]) {
  const own = await start();
  const admin = new Redis(own.url);
  stack.defer(() => admin.disconnect());
  const allow = (...more: string[]) => admin.call("ACL", "SETUSER", "limited", "on", ">secret", ...more);
  await allow("resetkeys", ...rules);
  return { url: own.url.replace("//", "//limited:secret@"), allow, admin };
}

/** What docs/scale.md says a user needs. */
const NEEDED = ["~keyrack:*", "+@read", "+@write", "+eval", "+evalsha", "+time"];

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

  it("is not used, and not ready, until the probe of its new connection has succeeded", async () => {
    const { url, admin } = await startWithUser(...NEEDED);
    await admin.call("CLIENT", "PAUSE", String(DEADLINE_MS), "WRITE");
    const { counter, redis, changes } = fallback(url, { timeoutMs: DEADLINE_MS, silentMaxMs: DEADLINE_MS });
    await until(() => redis.connected);
    expect(counter.redisState().ready).toBe(false);
    expect((await counter.check(ask([rule]))).store).toBe("memory");
    expect(await counter.put("w1", "id", "record", 60_000)).toBe(false);
    await admin.call("CLIENT", "UNPAUSE");
    await until(() => counter.redisState().ready);
    expect((await counter.check(ask([rule]))).store).toBe("redis");
    expect(changes).toEqual([]);
  });

  for (const [what, rules, missing] of [
    ["run no scripts", ["~keyrack:*", "+@all", "-eval", "-evalsha"], ["+eval", "+evalsha"]],
    ["use no keys of Keyrack", ["~other:*", "+@all"], ["~keyrack:*"]],
  ] as const) {
    it(`that lets its user ${what} is reported as refusing it, until it no longer does`, async () => {
      const { url, allow } = await startWithUser(...rules);
      const { counter, changes } = fallback(url);
      await counter.connect(DEADLINE_MS);
      expect(counter.redisState()).toEqual({ configured: true, ready: false, error: "auth" });
      expect((await counter.check(ask([rule]))).store).toBe("memory");
      expect(changes).toEqual(["auth"]);
      await allow(...missing);
      await until(() => counter.redisState().ready);
      expect((await counter.check(ask([rule]))).store).toBe("redis");
      expect(changes).toEqual(["auth", null]);
    });
  }

  it("needs to allow its user no more than the documentation says, and nothing is printed beside the log", async () => {
    const printed = vi.spyOn(console, "warn");
    const { url } = await startWithUser(...NEEDED);
    const { counter } = fallback(url);
    await decidesIn("redis", counter);
    const lease = await counter.lease({ ...ask([rule]), want: 10 });
    expect(await counter.returnLease("w1", lease.lease_id!, 4)).toBe(4);
    await counter.put("w1", "id", "record", 60_000);
    expect(await counter.take("w1", "id")).toBe("record");
    expect(printed).not.toHaveBeenCalled();
    printed.mockRestore();
    expect(readText("docs/scale.md")).toContain(`\`${NEEDED.join(" ")}\``);
  });

  it("without the database of the URL is not used", async () => {
    const own = await start();
    const { counter, changes } = fallback(`${own.url}/99`);
    await counter.connect(DEADLINE_MS);
    expect((await counter.check(ask([rule]))).store).toBe("memory");
    expect(counter.redisState()).toEqual({ configured: true, ready: false, error: "error" });
    expect(changes).toEqual(["error"]);
    const claims = await RedisClaims.open({ urls: [`${own.url}/99`], forced: true });
    stack.defer(() => claims.claims.close());
    expect(claims.refused).toContain("could not be selected");
    const other = fallback(`${own.url}/3`);
    await decidesIn("redis", other.counter);
  });
});
