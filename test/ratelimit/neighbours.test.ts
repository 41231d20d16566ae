// Rate-limit counters that owners share: a flood of one costs another nothing, and resets none of its own counts.
import { describe, expect, it } from "vitest";
import { Ledger } from "../../src/fairness/ledger.ts";
import type { MemoryCounter } from "../../src/ratelimit/memory/counter.ts";
import type { CheckRequest } from "../../src/ratelimit/counter.ts";
import { ask, fixed, sliding } from "../../harness/ratelimit/counters.ts";
import { memoryCounter } from "../../harness/ratelimit/memory-counter.ts";
import { handClock } from "../../harness/ratelimit/scenarios.ts";

const PLACES = 4_000;
const rule = sliding(5, 60_000);

function full(now: () => number, flood: (i: number) => Partial<CheckRequest>, counters = PLACES) {
  const places = new Ledger({ bound: PLACES, share: Number.POSITIVE_INFINITY });
  const counter = memoryCounter(now, { places, bounds: { counters, overflow: 20 } });
  for (let i = 0; i < 1.5 * PLACES; i++) counter.check({ ...ask([rule]), ...flood(i) });
  return { counter, places };
}

const firstRequests = (counter: MemoryCounter, more: Partial<CheckRequest>) =>
  Array.from({ length: 200 }, (_, i) => counter.check(ask([rule], { ...more, key_id: `customer-${i}` })));

const allowed = (verdicts: { allowed: boolean }[]) => verdicts.filter((verdict) => verdict.allowed).length;

/** What a stranger can make up: ids, rules, windows and algorithms. */
const floods: Record<string, (i: number) => Partial<CheckRequest>> = {
  ids: (i) => ({ key_id: `forged-${i}` }),
  "fixed rules": (i) => ({ key_id: `forged-${i}`, limits: [fixed(5, 60_000)] }),
  rules: (i) => ({ key_id: `forged-${i % 50}`, limits: [sliding(5, 60_000, { id: `r${i}` })] }),
  windows: (i) => ({ key_id: `forged-${i % 50}`, limits: [sliding(5, 60_000 + i)] }),
  projects: (i) => ({ key_id: `forged-${i % 50}`, project_id: `p${i}` }),
  "eight rules": (i) => ({
    key_id: `forged-${i}`,
    limits: Array.from({ length: 8 }, (_, n) => sliding(5, 60_000, { id: `r${n}` })),
  }),
};

describe.each(Object.entries(floods))("a flood of %s", (_, flood) => {
  it("in ten workspaces of one account leaves 200 of 200 first requests of another workspace allowed", () => {
    const clock = handClock();
    const stranger = (i: number) => ({ ...flood(i), workspace_id: `stranger-${i % 10}`, account_id: "stranger" });
    const { counter, places } = full(clock.now, stranger);
    expect(places.used).toBeLessThanOrEqual(PLACES);
    expect(allowed(firstRequests(counter, { workspace_id: "victim" }))).toBe(200);
    for (let i = 0; i < PLACES / 3; i++) counter.check({ ...ask([rule]), ...stranger(PLACES * 2 + i) });
    const again = firstRequests(counter, { workspace_id: "victim" });
    expect(new Set(again.map(({ policies }) => policies[0]!.remaining))).toEqual(new Set([3]));
    expect(places.used).toBeLessThanOrEqual(PLACES);
  });

  it("by a test key leaves 200 of 200 first requests of live customers allowed", () => {
    const clock = handClock();
    const { counter } = full(clock.now, (i) => ({ ...flood(i), env: "test" }), PLACES / 10);
    expect(allowed(firstRequests(counter, { env: "live" }))).toBe(200);
    const { counter: all } = full(clock.now, (i) => ({ ...flood(i), env: "test" }));
    expect(allowed(firstRequests(all, { env: "live" }))).toBe(200);
  });
});

describe("the largest owner", () => {
  /** Six counters of one rule and six of another, with room for no more. */
  const small = () => {
    const clock = handClock();
    const places = new Ledger({ bound: 2 * 10 + 12 * 2, share: Number.POSITIVE_INFINITY });
    const counter = memoryCounter(clock.now, { places });
    const other = sliding(5, 120_000, { id: "other" });
    for (let i = 0; i < 6; i++) counter.check(ask([rule], { key_id: `k${i}`, cost: 4 }));
    for (let i = 0; i < 6; i++) counter.check(ask([other], { key_id: `k${i}` }));
    const remaining = (key_id: string, limit = rule) =>
      counter.check(ask([limit], { key_id, cost: 0 })).policies[0]!.remaining;
    const newcomer = (n: number) => counter.check(ask([rule], { workspace_id: `w-new-${n}` }));
    return { clock, counter, places, remaining, newcomer, other };
  };

  it("gives up its least recently charged counter, and the units still count", () => {
    const { counter, remaining, newcomer } = small();
    for (const i of [0, 1]) counter.check(ask([rule], { key_id: `k${i}` }));
    expect(newcomer(1).allowed).toBe(true);
    expect(counter.metrics().evicted_total).toBeGreaterThan(0);
    // Given up or not, no counter of the rule has more left than before: what was given up is shared by new subjects.
    for (let i = 0; i < 6; i++) expect(remaining(`k${i}`), `k${i}`).toBeLessThanOrEqual(1);
    expect(remaining("new")).toBeLessThanOrEqual(1);
  });

  it("shares what was given up only until it expires", () => {
    const { clock, counter, remaining, newcomer } = small();
    newcomer(1);
    expect(remaining("new")).toBeLessThanOrEqual(1);
    clock.pass(61_001);
    expect(remaining("new")).toBe(5);
    expect(counter.check(ask([rule], { key_id: "new" })).policies[0]!.remaining).toBe(4);
  });

  it("keeps its leases: they can be spent, and returning one credits no other counter", () => {
    const clock = handClock();
    const places = new Ledger({ bound: 10 + 12 * 2 + 10 + 2, share: Number.POSITIVE_INFINITY });
    const counter = memoryCounter(clock.now, { places });
    const leases = Array.from({ length: 12 }, (_, i) =>
      counter.lease({ ...ask([rule], { key_id: `k${i}` }), want: 2 }),
    );
    counter.check(ask([rule], { workspace_id: "w2", key_id: "x", cost: 5 }));
    counter.check(ask([rule], { workspace_id: "w3", key_id: "y", cost: 5 }));
    expect(counter.metrics().evicted_total).toBeGreaterThan(0);
    for (const { lease_id } of leases) counter.returnLease("w1", lease_id!, 2);
    for (const [workspace_id, key_id] of [
      ["w2", "x"],
      ["w3", "y"],
    ] as const) {
      const { policies } = counter.check(ask([rule], { workspace_id, key_id, cost: 0 }));
      expect(policies[0]!.remaining, key_id).toBe(0);
    }
  });

  it("is refused rather than admitted uncounted when it has no shared counter left", () => {
    const clock = handClock();
    const places = new Ledger({ bound: 10 * 12, share: Number.POSITIVE_INFINITY });
    const counter = memoryCounter(clock.now, { places, bounds: { overflow: 2 } });
    const rules = Array.from({ length: 10 }, (_, i) => sliding(1, 60_000, { id: `r${i}` }));
    for (const one of rules) counter.check(ask([one]));
    for (let n = 0; n < 4; n++) counter.check(ask([rule], { workspace_id: `w-new-${n}` }));
    // Every rule is used up by its one subject, whatever was given up.
    expect(rules.map((one) => counter.check(ask([one])).allowed)).toEqual(rules.map(() => false));
  });

  it("has one shared counter for each rule, also where a request of several rules gives up its own", () => {
    const clock = handClock();
    const places = new Ledger({ bound: 400, share: Number.POSITIVE_INFINITY });
    const counter = memoryCounter(clock.now, { places, bounds: { overflow: 20 } });
    const rules = Array.from({ length: 8 }, (_, n) => sliding(5, 60_000, { id: `r${n}` }));
    for (let i = 0; i < 500; i++)
      counter.check(ask(rules, { workspace_id: `w${i % 3}`, account_id: "one", key_id: `k${i}` }));
    const { counters, overflow_counters } = counter.metrics();
    expect(counter.dirtyRows(1_000)).toHaveLength(counters + overflow_counters);
    expect(overflow_counters).toBeLessThanOrEqual(3 * rules.length);
  });

  it("is one account, however many workspaces it has, after a restart too", () => {
    const clock = handClock();
    const bound = 3 * 10 + 60;
    const make = () => memoryCounter(clock.now, { places: new Ledger({ bound, share: Number.POSITIVE_INFINITY }) });
    const charge = (counter: MemoryCounter, account_id: string, workspace_id: string, n: number) => {
      for (let i = 0; i < n; i++) counter.check(ask([rule], { account_id, workspace_id, key_id: `k${i}` }));
    };
    const before = make();
    // Each workspace of `many` is smaller than the one of `single`; together they are larger.
    charge(before, "single", "one", 11);
    charge(before, "many", "a", 9);
    charge(before, "many", "b", 9);
    const after = make();
    after.load(before.dirtyRows(100), { accountOf: (id) => (id === "one" ? "single" : "many") });
    for (const counter of [before, after]) {
      charge(counter, "new", "n", 3);
      for (let i = 0; i < 11; i++) {
        const peek = counter.check(
          ask([rule], { account_id: "single", workspace_id: "one", key_id: `k${i}`, cost: 0 }),
        );
        expect(peek.policies[0]!.remaining, `k${i}`).toBe(4);
      }
    }
  });
});
