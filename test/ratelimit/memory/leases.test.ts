// Leases compared with the log of what was really spent, on both stores and on a manual clock.
import { describe, expect, it } from "vitest";
import type { Counter, Lease } from "../../../src/ratelimit/counter.ts";
import type { RateLimit } from "../../../src/kernel/ratelimit/rule.ts";
import { ask, fixed, sliding, stores } from "../../../harness/ratelimit/counters.ts";
import { seeded } from "../../../harness/random.ts";
import { memoryCounter } from "../../../harness/ratelimit/memory-counter.ts";
import { handClock } from "../../../harness/ratelimit/scenarios.ts";
import { START } from "../../../harness/ratelimit/traffic.ts";
import { ROUNDS } from "../../../harness/rounds.ts";

type Spend = { t: number; units: number };

const everyStore = stores();

for (const { name, make } of everyStore) {
  describe(`a lease on ${name}`, () => {
    it("grants what every rule still allows, for a tenth of the shortest window", async () => {
      const clock = handClock();
      const counter = await make(clock.now);
      const rules = [sliding(100, 60_000, { id: "a" }), sliding(30, 5_000, { id: "b", scope: "tenant" })];
      await counter.check(ask(rules, { cost: 10 }));
      const lease = await counter.lease({ ...ask(rules), want: 50 });
      expect(lease).toMatchObject({ granted: 20, expires_in_ms: 500, store: name });
      expect(lease.policies.map((policy) => policy.remaining)).toEqual([70, 0]);
      const none = await counter.lease({ ...ask(rules), want: 1 });
      expect(none).toMatchObject({ granted: 0, lease_id: null, expires_in_ms: 0 });
    });

    it("ends no later than its fixed window", async () => {
      const clock = handClock(Math.ceil(START / 60_000) * 60_000 - 700);
      const counter = await make(clock.now);
      const rule = fixed(10, 60_000);
      expect(await counter.lease({ ...ask([rule]), want: 10 })).toMatchObject({ granted: 10, expires_in_ms: 700 });
      clock.pass(699);
      expect((await counter.lease({ ...ask([rule]), want: 10 })).granted).toBe(0);
      clock.pass(1);
      expect((await counter.lease({ ...ask([rule]), want: 10 })).granted).toBe(10);
    });

    it("keeps late spends and the next grant out of one true window", async () => {
      const clock = handClock();
      const counter = await make(clock.now);
      const rule = sliding(100, 60_000);
      const first = await counter.lease({ ...ask([rule]), want: 100 });
      const lastSpend = START + first.expires_in_ms - 1;
      for (let t = START; t <= lastSpend + 60_000; t += 250) {
        clock.set(t);
        expect((await counter.lease({ ...ask([rule]), want: 100 })).granted, `at ${t - START}`).toBe(0);
      }
      clock.set(START + first.expires_in_ms + 60_000 + 1_000);
      expect((await counter.lease({ ...ask([rule]), want: 100 })).granted).toBe(100);
    });

    it("credits what is returned in time, once, and only to its own workspace", async () => {
      const clock = handClock();
      const counter = await make(clock.now);
      const rules = [sliding(100, 60_000, { id: "a" }), fixed(100, 3_600_000, { id: "b", scope: "tenant" })];
      const left = async () => (await counter.check(ask(rules, { cost: 0 }))).policies.map((p) => p.remaining);
      const { lease_id } = await counter.lease({ ...ask(rules), want: 60 });
      expect(await left()).toEqual([40, 40]);
      expect(await counter.returnLease("w2", lease_id!, 25)).toBe(0);
      expect(await counter.returnLease("w1", "no such lease", 25)).toBe(0);
      expect(await left()).toEqual([40, 40]);
      expect(await counter.returnLease("w1", lease_id!, 25)).toBe(25);
      expect(await left()).toEqual([65, 65]);
      expect(await counter.returnLease("w1", lease_id!, 25)).toBe(0);
      expect(await left()).toEqual([65, 65]);
    });

    it("never credits more than it granted, nor a negative amount", async () => {
      const clock = handClock();
      const counter = await make(clock.now);
      const rule = sliding(100, 60_000);
      await counter.check(ask([rule], { cost: 50 }));
      const one = await counter.lease({ ...ask([rule]), want: 10 });
      const two = await counter.lease({ ...ask([rule]), want: 10 });
      expect(await counter.returnLease("w1", one.lease_id!, 1_000)).toBe(10);
      expect(await counter.returnLease("w1", two.lease_id!, -5)).toBe(0);
      expect((await counter.check(ask([rule], { cost: 0 }))).policies[0]!.remaining).toBe(40);
    });

    it("keeps unspent units charged until a window after its end", async () => {
      const clock = handClock();
      const counter = await make(clock.now);
      const rule = sliding(10, 60_000);
      const { lease_id, expires_in_ms, policies } = await counter.lease({ ...ask([rule]), want: 10 });
      expect(expires_in_ms).toBe(6_000);
      clock.pass(expires_in_ms);
      expect(await counter.returnLease("w1", lease_id!, 10)).toBe(0);
      clock.set(START + policies[0]!.reset_ms - 1);
      expect((await counter.check(ask([rule], { cost: 0 }))).policies[0]!.remaining).toBe(0);
      clock.pass(1);
      expect((await counter.check(ask([rule], { cost: 0 }))).policies[0]!.remaining).toBe(10);
    });

    const steps = ROUNDS * (name === "memory" ? 1_000 : 150);
    for (const [title, rules] of [
      ["one sliding rule", [sliding(100, 10_000)]],
      ["a short and a long sliding rule", [sliding(20, 1_000, { id: "s" }), sliding(300, 60_000, { id: "l" })]],
      ["sliding and fixed together", [sliding(50, 7_013, { id: "s" }), fixed(80, 9_000, { id: "f", scope: "tenant" })]],
    ] as const) {
      it(`keeps 8 careless clients under the limit in every true window: ${title}`, async () => {
        const clock = handClock();
        const spends = await eightClients(await make(clock.now), clock, [...rules], steps, 11);
        expect(spends.length).toBeGreaterThan(steps / 40);
        for (const rule of rules) expect(worst(rule, spends), `rule ${rule.id}`).toBeLessThanOrEqual(rule.limit);
        expect(Math.max(...rules.map((rule) => worst(rule, spends) / rule.limit))).toBeGreaterThan(0.6);
      });
    }
  });
}

const redis = everyStore.find(({ name }) => name === "redis");

describe.skipIf(redis === undefined)("leases on both stores under the same clock", () => {
  it("are granted, returned and reported alike", async () => {
    const random = seeded(5);
    const clock = handClock();
    const both = [memoryCounter(clock.now), await redis!.make(clock.now)];
    const rules = [sliding(40, 3_000, { id: "s" }), fixed(90, 5_000, { id: "f" }), sliding(150, 60_000, { id: "l" })];
    const held: [Lease, Lease][] = [];
    for (let i = 0; i < 100 * ROUNDS; i++) {
      clock.pass(random.int(0, 60));
      const act = random.next();
      const want = random.int(1, 20);
      const returned = act < 0.3 ? held.splice(random.int(0, held.length - 1), 1)[0] : undefined;
      const answers = [];
      for (const [n, counter] of both.entries()) {
        if (returned !== undefined) answers.push(await counter.returnLease("w1", returned[n]!.lease_id!, want - 1));
        else if (act < 0.6) answers.push(await counter.lease({ ...ask(rules), want }));
        else answers.push(await counter.check(ask(rules, { cost: want % 4 })));
      }
      expect(plain(answers[1]), `step ${i}`).toEqual(plain(answers[0]));
      const [mine, theirs] = answers as [Lease, Lease];
      if (returned === undefined && act < 0.6 && mine.granted > 0) held.push([mine, theirs]);
    }
  });
});

function plain(answer: unknown): unknown {
  return typeof answer === "object" ? { ...answer, lease_id: null, store: null } : answer;
}

/**
 * Eight clients take leases, spend them early, late or at the last millisecond, return some, die with others, and
 * sometimes check without a lease. A client measures time from before its request; the response is delayed.
 */
async function eightClients(
  counter: Counter,
  clock: ReturnType<typeof handClock>,
  rules: RateLimit[],
  steps: number,
  seed: number,
): Promise<Spend[]> {
  const random = seeded(seed);
  const spends: Spend[] = [];
  const pause = Math.min(...rules.map((rule) => rule.window_ms / 5));
  const clients: ({ id: string; left: number; end: number } | null)[] = Array.from({ length: 8 }, () => null);
  for (let i = 0; i < steps; i++) {
    const who = random.int(0, 7);
    const client = clients[who];
    if (client == null) {
      const asked = clock.now();
      clock.pass(random.int(0, 3));
      const lease = await counter.lease({ ...ask(rules), want: random.int(1, 25) });
      if (lease.lease_id !== null) {
        clients[who] = { id: lease.lease_id, left: lease.granted, end: asked + lease.expires_in_ms };
      } else clock.pass(random.int(0, pause));
    } else if (random.next() < 0.1) {
      if (random.next() < 0.7) await counter.returnLease("w1", client.id, client.left);
      clients[who] = null;
    } else {
      // Sometimes a client sleeps until just before the end: the worst moment to spend.
      if (random.next() < 0.1 && client.end - 1 > clock.now()) clock.set(client.end - 1);
      const units = Math.min(client.left, random.int(1, 12));
      if (clock.now() >= client.end || units === 0) clients[who] = null;
      else {
        client.left -= units;
        spends.push({ t: clock.now(), units });
      }
    }
    if (random.next() < 0.2) {
      const cost = random.int(1, 3);
      if ((await counter.check(ask(rules, { cost }))).allowed) spends.push({ t: clock.now(), units: cost });
    }
    clock.pass(random.pick([0, 0, 0, 1, 1, 2, 17]));
  }
  return spends;
}

/** The most units that were spent within one true window, both ends counting. */
function worst(rule: RateLimit, spends: Spend[]): number {
  let most = 0;
  let sum = 0;
  let from = 0;
  for (const { t, units } of spends) {
    sum += units;
    const start = rule.algorithm === "fixed" ? Math.floor(t / rule.window_ms) * rule.window_ms : t - rule.window_ms;
    while (spends[from]!.t < start) sum -= spends[from++]!.units;
    most = Math.max(most, sum);
  }
  return most;
}
