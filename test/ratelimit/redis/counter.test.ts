// Guarantees of the Redis store alone: the form of its keys, their expiry, and clusters.
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { RateLimit } from "../../../src/kernel/ratelimit/rule.ts";
import { RedisCounter } from "../../../src/ratelimit/redis/counter.ts";
import { deleteKeys, findRedis, hasRedis, ownPrefix, startCluster } from "../../../harness/databases/redis.ts";
import { ask, fixed, sliding } from "../../../harness/ratelimit/counters.ts";
import { DEADLINE_MS } from "../../../harness/waiting.ts";

const prefix = ownPrefix();
/** In milliseconds, by the clock of Redis alone. */
const EXPIRES_AT = `local time = redis.call("TIME")
  return time[1] * 1000 + math.floor(time[2] / 1000) + redis.call("PTTL", KEYS[1])`;

describe.runIf(hasRedis())("keys in Redis", () => {
  let shared: Awaited<ReturnType<typeof findRedis>>;
  let client: Redis;
  let counter: RedisCounter;
  beforeAll(async () => {
    shared = await findRedis();
    client = new Redis(shared!.url);
    counter = new RedisCounter({ urls: [shared!.url], prefix, timeoutMs: DEADLINE_MS });
    await counter.ready(DEADLINE_MS);
  });
  afterAll(async () => {
    counter?.close();
    client?.disconnect();
    if (shared) await deleteKeys(shared.url, prefix);
    await shared?.stop();
  });
  const keys = async () => (await client.keys(`${prefix}:*`)).filter((key) => !/:ping$|:new/.test(key));

  it("carry no id, share a workspace's hash tag, and live a window and a 60th", async () => {
    const before = new Set(await keys());
    const rules = [sliding(100, 60_000, { id: "slow" }), fixed(100, 60_000, { id: "even", scope: "tenant" })];
    expect((await counter.check(ask(rules))).store).toBe("redis");
    const found = (await keys()).filter((key) => !before.has(key));
    expect(found).toHaveLength(2);
    for (const key of found) expect(key).toMatch(/^keyrack-test-[0-9a-f]+:\{[\w-]{22}\}:[\w-]{22}$/);
    expect(new Set(found.map((key) => key.split(":")[1])).size).toBe(1);
    for (const key of found) {
      const ttl = await client.pttl(key);
      expect(ttl).toBeGreaterThan(0);
      expect(ttl).toBeLessThanOrEqual(61_000);
    }
  });

  it("of new subjects are bounded by cell and window class: above it they share one counter for each rule", async () => {
    const url = shared!.url;
    const small = new RedisCounter({
      urls: [url],
      prefix: `${prefix}:small`,
      timeoutMs: DEADLINE_MS,
      countersPerCell: 5,
    });
    await small.ready(DEADLINE_MS);
    const [minute, hour] = [sliding(3, 60_000), sliding(3, 3_600_000)];
    const left = async (more: object, limit = minute) =>
      (await small.check(ask([limit], more))).policies.map(({ remaining }) => remaining)[0];
    const first = (n: number, more = {}, limit = minute) =>
      Promise.all(Array.from({ length: n }, (_, i) => left({ key_id: `k${i}`, ...more }, limit)));
    expect(await first(5)).toEqual([2, 2, 2, 2, 2]);
    expect([await left({ key_id: "x" }), await left({ key_id: "y" }), await left({ key_id: "z" })]).toEqual([2, 1, 0]);
    expect((await small.check(ask([minute], { key_id: "late" }))).allowed).toBe(false);
    const lease = await small.lease({ ...ask([minute], { key_id: "leased" }), want: 3 });
    expect(lease.granted).toBe(0);
    // Counters that exist, other rules, window classes and cells are not affected.
    expect(await left({ key_id: "k1" })).toBe(1);
    expect(await left({ key_id: "x" }, sliding(3, 60_000, { id: "other" }))).toBe(2);
    expect(await first(5, {}, hour)).toEqual([2, 2, 2, 2, 2]);
    expect(await first(5, { env: "test" })).toEqual([2, 2, 2, 2, 2]);
    expect(await first(5, { workspace_id: "w2" })).toEqual([2, 2, 2, 2, 2]);
    expect(small.overflowed).toBe(6);
    // One mark for each of 5 subjects in 4 classes of cells, none for the others.
    expect(await client.keys(`${prefix}:small:*:new`)).toHaveLength(20);
    for (const number of await client.keys(`${prefix}:small:*}:new:*`)) {
      expect(await client.get(number)).toBe("5");
      expect(await client.pttl(number)).toBeGreaterThan(0);
    }
    small.close();
  });

  it("are counted once, however often a counter expires and is opened again", async () => {
    const own = `${prefix}:again`;
    const again = new RedisCounter({
      urls: [shared!.url],
      prefix: own,
      timeoutMs: DEADLINE_MS,
      countersPerCell: 5,
    });
    await again.ready(DEADLINE_MS);
    const left = async (key_id: string, rule: RateLimit) =>
      (await again.check(ask([rule], { key_id }))).policies[0]!.remaining;
    const expire = async () => client.del(...(await client.keys(`${own}:*`)).filter((key) => !key.includes(":new")));
    for (const [class_, rule] of [fixed(3, 60_000), sliding(3, 3_600_000)].entries()) {
      for (let round = 0; round < 20; round++) {
        const remaining = await Promise.all(["a", "b", "c", "d", "e"].map((id) => left(id, rule)));
        expect(remaining, `round ${round}`).toEqual([2, 2, 2, 2, 2]);
        await expire();
      }
      expect(again.overflowed).toBe(2 * class_);
      expect([await left("f", rule), await left("g", rule)]).toEqual([2, 1]);
      expect(again.overflowed).toBe(2 * class_ + 2);
    }
    again.close();
  });

  it("of many subjects are small, so that none holds Redis up when it expires", async () => {
    const own = `${prefix}:many`;
    const many = new RedisCounter({ urls: [shared!.url], prefix: own, timeoutMs: DEADLINE_MS });
    await many.ready(DEADLINE_MS);
    const rule = sliding(3, 60_000);
    await Promise.all(Array.from({ length: 500 }, (_, i) => many.check(ask([rule], { key_id: `k${i}` }))));
    const sizes: number[] = [];
    const ends: number[] = [];
    for (const key of await client.keys(`${own}:*`)) {
      sizes.push(Number(await client.memory("USAGE", key)));
      if (key.includes(":new")) ends.push(Number(await client.eval(EXPIRES_AT, 1, key)));
    }
    expect(sizes.length).toBeGreaterThan(1_000);
    expect(Math.max(...sizes)).toBeLessThan(500);
    // Marks expire with their number, so there are never more of them than the bound.
    expect(ends).toHaveLength(501);
    expect(Math.max(...ends) - Math.min(...ends)).toBeLessThan(1_000);
    many.close();
  });

  it("are not written by a peek or a denial", async () => {
    const before = await keys();
    await counter.check(ask([sliding(5, 60_000, { id: "peeked" })], { cost: 0 }));
    await counter.check(ask([sliding(5, 60_000, { id: "denied" })], { cost: 6 }));
    expect(await keys()).toEqual(before);
  });

  it("of a lease expire with it, and its counter a window after its end", async () => {
    const before = new Set(await keys());
    const rule = sliding(5, 100_000, { id: "leased" });
    const { lease_id, expires_in_ms } = await counter.lease({ ...ask([rule]), want: 5 });
    const added = (await keys()).filter((key) => !before.has(key));
    const lease = added.find((key) => key.includes("}:lease:"))!;
    expect(expires_in_ms).toBe(10_000);
    expect(await client.pttl(lease)).toBeLessThanOrEqual(10_000);
    expect(await client.pttl(added.find((key) => key !== lease)!)).toBeGreaterThan(100_000);
    expect(await counter.returnLease("w1", lease_id!, 5)).toBe(5);
    expect(await client.exists(lease)).toBe(0);
  });

  it("count on Redis' own clock when no test gives one", async () => {
    const rule = fixed(10, 2_678_400_000, { id: "clock" });
    const time = async () => {
      const [seconds, micros] = await client.time();
      return Number(seconds) * 1_000 + Number(micros) / 1_000;
    };
    const before = await time();
    const { reset_ms } = (await counter.check(ask([rule]))).policies[0]!;
    const after = await time();
    const end = (Math.floor(before / rule.window_ms) + 1) * rule.window_ms;
    expect(reset_ms).toBeLessThanOrEqual(end - before + 1);
    expect(reset_ms).toBeGreaterThanOrEqual(end - after - 1);
  });
});

describe.runIf(hasRedis())("a cluster of three nodes", () => {
  let cluster: Awaited<ReturnType<typeof startCluster>>;
  beforeAll(async () => {
    cluster = await startCluster();
  });
  afterAll(() => cluster?.stop());

  it("counts, leases and returns for many workspaces at once, each on its own node", async () => {
    const counter = new RedisCounter({ urls: cluster!.urls, timeoutMs: DEADLINE_MS });
    expect(await counter.ready(DEADLINE_MS)).toBe(true);
    const rules = [sliding(20, 60_000, { id: "a" }), fixed(30, 2_678_400_000, { id: "b", scope: "tenant" })];
    await Promise.all(
      Array.from({ length: 30 }, async (_, i) => {
        const request = ask(rules, { workspace_id: `w${i}` });
        for (let n = 0; n < 10; n++) expect((await counter.check(request)).allowed).toBe(true);
        const lease = await counter.lease({ ...request, want: 50 });
        expect(lease.granted).toBe(10);
        expect((await counter.check(request)).limited_policy).toBe("a");
        expect(await counter.returnLease(`w${i}`, lease.lease_id!, 3)).toBe(3);
        const peek = await counter.check({ ...request, cost: 0 });
        expect(peek.policies.map((policy) => policy.remaining)).toEqual([3, 13]);
      }),
    );
    const nodes = await Promise.all(
      cluster!.urls.map(async (url) => {
        const node = new Redis(url);
        const size = await node.dbsize();
        node.disconnect();
        return size;
      }),
    );
    expect(nodes.every((size) => size > 0)).toBe(true);
    counter.close();
  });
});
