// Whatever happens to Redis, a check gets a verdict in time that names its store (docs/design/0011-fail-modes.md).
// Every server here is started by this file. KEYRACK_TEST_CYCLES=200 runs the nightly length.
import { Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { CircuitBreaker } from "../../src/ratelimit/redis/circuit-breaker.ts";
import { classifyRedisError } from "../../src/ratelimit/redis/error.ts";
import { FallbackCounter, type FallbackOptions } from "../../src/ratelimit/fallback.ts";
import { RedisCounter } from "../../src/ratelimit/redis/counter.ts";
import { Failure } from "../../src/kernel/errors.ts";
import { hasRedis, type OwnRedis, startRedis } from "../../harness/databases/redis.ts";
import { DEADLINE_MS, pace, turns, until } from "../../harness/waiting.ts";
import { ask, sliding } from "../../harness/ratelimit/counters.ts";
import { memoryCounter } from "../../harness/ratelimit/memory-counter.ts";
import { handClock } from "../../harness/ratelimit/scenarios.ts";

const CYCLES = Number(process.env["KEYRACK_TEST_CYCLES"] ?? 2);
const TIMEOUT_MS = 200;
const rule = sliding(1_000_000, 60_000);

const open: FallbackCounter[] = [];
afterEach(() => {
  for (const counter of open.splice(0)) counter.close();
});

function fallback(
  url: string,
  onFailure: "local" | "error" = "local",
  timeoutMs = TIMEOUT_MS,
  { now = () => Date.now(), onChange = () => {} }: Partial<Pick<FallbackOptions, "now" | "onChange">> = {},
): FallbackCounter {
  const redis = new RedisCounter({ urls: [url], prefix: "fallback", timeoutMs });
  const counter = new FallbackCounter({ redis, memory: memoryCounter(now), now, onFailure, onChange });
  open.push(counter);
  return counter;
}

const ready = (counter: FallbackCounter) => until(() => counter.redisState().ready);
const storeOf = async (counter: FallbackCounter) => {
  try {
    return (await counter.check(ask([rule]))).store;
  } catch (refused) {
    return refused;
  }
};
const decidesInRedis = (counter: FallbackCounter) =>
  until(async () => (await storeOf(counter)) === "redis" && counter.redisState().ready);

/** Fifty callers while `fault` runs, and until Redis decides again. `npm run bench -- faults` measures the delays. */
async function underLoad(counter: FallbackCounter, fault: (answered: Answered) => Promise<void>): Promise<Answered> {
  const answered: Answered = { memory: 0, redis: 0 };
  const load = { on: true };
  const callers = Array.from({ length: 50 }, async (_, i) => {
    while (load.on) {
      const verdict = await counter.check(ask([rule], { key_id: `k${i}` }));
      answered[verdict.store]++;
      await pace();
    }
  });
  await more(answered, "redis");
  await fault(answered);
  await more(answered, "redis");
  load.on = false;
  await Promise.all(callers);
  return answered;
}

type Answered = { memory: number; redis: number };

/** Resolves after as many further verdicts of a store as there are callers. */
async function more(answered: Answered, store: keyof Answered): Promise<void> {
  const enough = answered[store] + 50;
  await until(() => answered[store] >= enough);
}

/** Faults of a server, and its recovery. */
async function admin(own: OwnRedis, ...commands: string[][]): Promise<void> {
  const client = new Redis(own.url);
  for (const [name, ...args] of commands) await client.call(name!, ...args);
  client.disconnect();
}

const faults: Record<string, (own: OwnRedis, answered: Answered) => Promise<void>> = {
  killed: async (own, answered) => {
    await own.kill();
    await more(answered, "memory");
    await own.start();
  },
  paused: async (own, answered) => {
    own.signal("SIGSTOP");
    await more(answered, "memory");
    own.signal("SIGCONT");
  },
  slow: async (own, answered) => {
    // Redis ends a pause by itself and takes no command before that. Another follows if a stall of this process
    // outlasted it, so that too few checks timed out.
    const enough = answered.memory + 50;
    while (answered.memory < enough) await admin(own, ["CLIENT", "PAUSE", String(3 * TIMEOUT_MS), "ALL"], ["PING"]);
  },
  "read-only": async (own, answered) => {
    await admin(own, ["REPLICAOF", "127.0.0.1", "1"]);
    await more(answered, "memory");
    await admin(own, ["REPLICAOF", "NO", "ONE"]);
  },
};

describe.runIf(hasRedis())("while Redis fails", () => {
  let server: OwnRedis;
  beforeAll(async () => {
    server = (await startRedis())!;
  });
  afterAll(() => server?.stop());

  for (const [name, fault] of Object.entries(faults)) {
    it(`(${name}) every check gets a verdict from memory, and Redis is used again afterwards`, async () => {
      const counter = fallback(server.url);
      await ready(counter);
      for (let cycle = 0; cycle < CYCLES; cycle++) {
        const answered = await underLoad(counter, (answered) => fault(server, answered));
        expect(answered.memory).toBeGreaterThan(0);
        expect(answered.redis).toBeGreaterThan(0);
      }
      await decidesInRedis(counter);
      expect(counter.metrics().fallbacks_total).toBeGreaterThan(0);
      expect(counter.redisState()).toEqual({ configured: true, ready: true, error: null });
    });
  }

  it("(flushed with its scripts) every check gets its verdict from Redis", async () => {
    const counter = fallback(server.url, "local", DEADLINE_MS);
    await ready(counter);
    const answered = await underLoad(counter, async (answers) => {
      for (let i = 0; i < 10; i++) {
        await admin(server, ["FLUSHALL"], ["SCRIPT", "FLUSH"]);
        await more(answers, "redis");
      }
    });
    expect(answered.memory).toBe(0);
  });

  it("a stall of this process is not taken for one of Redis: a reply that has arrived counts", async () => {
    const counter = fallback(server.url, "error", TIMEOUT_MS);
    await decidesInRedis(counter);
    const verdict = counter.check(ask([rule]));
    await turns(); // sent
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3 * TIMEOUT_MS);
    expect((await verdict).store).toBe("redis");
  });

  it("a lease is returned to the store that granted it, and to none when that one is away", async () => {
    const own = (await startRedis())!;
    const counter = fallback(own.url, "local", DEADLINE_MS);
    await ready(counter);
    const shared = await counter.lease({ ...ask([rule]), want: 10 });
    const lost = await counter.lease({ ...ask([rule]), want: 10 });
    expect(await counter.returnLease("w1", shared.lease_id!, 4)).toBe(4);
    await own.stop();
    const alone = await counter.lease({ ...ask([rule]), want: 10 });
    expect([shared.store, alone.store]).toEqual(["redis", "memory"]);
    expect(await counter.returnLease("w1", lost.lease_id!, 4)).toBe(0);
    expect(await counter.returnLease("w1", alone.lease_id!, 4)).toBe(4);
  });

  it("with the setting `error` a check is refused as unavailable, with the circuit closed or open", async () => {
    const own = (await startRedis())!;
    const counter = fallback(own.url, "error");
    await ready(counter);
    await decidesInRedis(counter);
    const before = counter.metrics();
    own.signal("SIGSTOP");
    for (let i = 0; i < 10; i++) {
      const refusal = await storeOf(counter);
      expect(refusal).toBeInstanceOf(Failure);
      expect(refusal).toMatchObject({ failure: "unavailable", status: 503 });
    }
    expect(counter.metrics()).toMatchObject({
      circuit_open: true,
      circuit_opened_total: before.circuit_opened_total + 1,
      fallbacks_total: before.fallbacks_total + 10,
    });
    expect(counter.redisState()).toEqual({ configured: true, ready: false, error: "timeout" });
    own.signal("SIGCONT");
    await own.stop();
  });
});

describe("the Redis state of /healthz", () => {
  it.runIf(hasRedis())("is `refused` while nothing listens, and ready once something does", async () => {
    const own = (await startRedis())!;
    await own.kill();
    const counter = fallback(own.url, "local", DEADLINE_MS);
    expect((await counter.check(ask([rule]))).store).toBe("memory");
    await until(() => counter.redisState().error === "refused");
    expect(counter.redisState()).toMatchObject({ configured: true, ready: false });
    await own.start();
    await ready(counter);
    expect((await counter.check(ask([rule]))).store).toBe("redis");
    await own.stop();
  });

  it.runIf(hasRedis())("is reported when Redis goes away and when it is back, at most once a minute", async () => {
    const own = (await startRedis())!;
    const clock = handClock();
    const changes: unknown[] = [];
    const more = { now: clock.now, onChange: (error: unknown) => changes.push(error) };
    const counter = fallback(own.url, "local", DEADLINE_MS, more);
    const isRefused = () => counter.redisState().error === "refused";
    await ready(counter);
    await own.kill();
    await until(() => changes.length === 1);
    await own.start();
    await until(() => changes.length === 2);
    await own.kill();
    await until(isRefused);
    expect(changes).toEqual(["refused", null]);
    clock.pass(60_000);
    await until(() => changes.length === 3);
    await own.start();
    await until(() => changes.length === 4);
    expect(changes).toEqual(["refused", null, "refused", null]);
    await own.stop();
  });

  it.runIf(hasRedis())("is `auth` with a wrong password or none", async () => {
    const own = (await startRedis(["--requirepass", "right"]))!;
    for (const url of [own.url, own.url.replace("//", "//:wrong@")]) {
      const counter = fallback(url);
      await until(async () => {
        expect((await counter.check(ask([rule]))).store).toBe("memory");
        return counter.redisState().error === "auth";
      });
    }
    const counter = fallback(own.url.replace("//", "//:right@"), "local", DEADLINE_MS);
    await ready(counter);
    expect((await counter.check(ask([rule]))).store).toBe("redis");
    await own.stop();
  });

  it("is an error class, whatever the message contains", () => {
    const words = [
      [new Error("Command timed out"), "timeout"],
      [Object.assign(new Error("connect ECONNREFUSED 10.0.0.1:6379"), { code: "ECONNREFUSED" }), "refused"],
      [new Error("WRONGPASS invalid username-password pair or user is disabled."), "auth"],
      [Object.assign(new Error("certificate has expired"), { code: "CERT_HAS_EXPIRED" }), "tls"],
      [Object.assign(new Error("write EPROTO: wrong version number"), { code: "EPROTO" }), "tls"],
      [new Error("getaddrinfo ENOTFOUND redis.internal"), "unreachable"],
      [new Error("READONLY You can't write against a read only replica."), "readonly"],
      [new Error("LOADING Redis is loading the dataset in memory"), "loading"],
      [new Error("OOM command not allowed when used memory > 'maxmemory'."), "full"],
      [Object.assign(new Error("Failed to refresh slots"), { lastNodeError: new Error("NOAUTH no") }), "auth"],
      [new Error("something else"), "error"],
      ["not even an error", "error"],
    ] as const;
    expect(words.map(([error]) => classifyRedisError(error))).toEqual(words.map(([, word]) => word));
  });
});

describe("the circuit breaker", () => {
  it("opens at five failures within ten seconds, and not at five that are further apart", () => {
    const clock = handClock();
    const breaker = new CircuitBreaker(clock.now);
    for (let i = 0; i < 20; i++) {
      breaker.fail();
      clock.pass(2_501);
    }
    expect(breaker.open).toBe(false);
    for (let i = 0; i < 5; i++) breaker.fail();
    expect(breaker.open).toBe(true);
    expect(breaker.opened).toBe(1);
  });

  it("requests one probe every half second while open, and clears its failures when closed", () => {
    const clock = handClock();
    const breaker = new CircuitBreaker(clock.now);
    expect(breaker.shouldProbe()).toBe(false);
    for (let i = 0; i < 5; i++) breaker.fail();
    const asked = Array.from({ length: 20 }, () => {
      clock.pass(100);
      return breaker.shouldProbe();
    });
    expect(asked.filter(Boolean)).toHaveLength(4);
    breaker.close();
    for (let i = 0; i < 4; i++) breaker.fail();
    expect(breaker.open).toBe(false);
  });
});
