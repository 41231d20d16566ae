// The bounds of the in-process counters: forged ids exhaust neither memory nor another caller's limit.
import { describe, expect, it } from "vitest";
import { LEASES_MAX, LEASES_PER_WORKSPACE_MAX, LeaseTable } from "../../src/ratelimit/memory/leases.ts";
import { MemoryCounter } from "../../src/ratelimit/memory/counter.ts";
import { ask, handClock, sliding } from "../../harness/ratelimit/counters.ts";

const rule = sliding(5, 60_000);

describe("a workspace at its cap of 100 000 counters", () => {
  const victim = ask([rule], { workspace_id: "victim", cost: 4 });
  const full = () => {
    const clock = handClock();
    const counter = new MemoryCounter({ now: clock.now });
    counter.check(victim);
    for (let i = 0; i < 105_000; i++) counter.check(ask([rule], { workspace_id: "forger", key_id: `forged-${i}` }));
    return { clock, counter };
  };

  it("holds exactly 100 000 and one overflow counter for the rule", () => {
    const { counter } = full();
    expect(counter.metrics()).toMatchObject({ counters: 100_001, overflow_counters: 1, workspaces: 2 });
    expect(counter.metrics().overflowed_total).toBe(5_000);
  });

  it("counts new subjects together and never admits one uncounted", () => {
    const { counter } = full();
    for (let i = 0; i < 10; i++) {
      const verdict = counter.check(ask([rule], { workspace_id: "forger", key_id: `another-${i}` }));
      expect(verdict).toMatchObject({ allowed: false, limited_policy: "rule", policies: [{ remaining: 0 }] });
    }
  });

  it("keeps existing counters, new subjects of other rules, and other workspaces apart", () => {
    const { counter } = full();
    expect(counter.check(ask([rule], { workspace_id: "forger", key_id: "forged-7" })).policies[0]!.remaining).toBe(3);
    const other = counter.check(ask([sliding(5, 60_000, { id: "other" })], { workspace_id: "forger", key_id: "x" }));
    expect(other.policies[0]!.remaining).toBe(4);
    expect(counter.check({ ...victim, cost: 0 }).policies[0]!.remaining).toBe(1);
    expect(counter.check({ ...victim, key_id: "new" }).allowed).toBe(true);
  });

  it("frees expired counters first: after a window every new subject gets its own row again", () => {
    const { clock, counter } = full();
    clock.pass(61_001);
    const { overflowed_total } = counter.metrics();
    const left = new Set<number>();
    for (let i = 0; i < 20_000; i++) {
      const late = ask([rule], { workspace_id: "forger", key_id: `late-${i}` });
      left.add(counter.check(late).policies[0]!.remaining);
      // One request frees at most five thousand rows; the next one continues from there.
      if (i === 0) expect(counter.metrics().lapsed_total).toBe(5_000);
    }
    expect([...left]).toEqual([4]);
    expect(counter.metrics().overflowed_total).toBe(overflowed_total);
    expect(counter.metrics().counters).toBeLessThanOrEqual(100_002);
  });
});

describe("small bounds", () => {
  const bounds = { perWorkspace: 10, inAll: 25, overflowPerWorkspace: 2, overflowInAll: 5 };
  const fill = (counter: MemoryCounter, workspace_id: string, count: number) => {
    for (let i = 0; i < count; i++) counter.check(ask([rule], { workspace_id, key_id: `k${i}` }));
  };

  it("hold over all workspaces: at the bound new subjects share a counter, and no counter is evicted", () => {
    const clock = handClock();
    const counter = new MemoryCounter({ now: clock.now, bounds });
    for (const workspace of ["a", "b", "c"]) fill(counter, workspace, 20);
    expect(counter.metrics()).toMatchObject({ counters: 25, overflow_counters: 3 });
    for (const [workspace, own] of [
      ["a", 10],
      ["b", 10],
      ["c", 5],
    ] as const) {
      for (let i = 0; i < own; i++) {
        const peek = counter.check(ask([rule], { workspace_id: workspace, key_id: `k${i}`, cost: 0 }));
        expect(peek.policies[0]!.remaining, `${workspace} ${i}`).toBe(4);
      }
    }
    expect(counter.check(ask([rule], { workspace_id: "d", key_id: "k" })).policies[0]!.remaining).toBe(4);
    expect(counter.check(ask([rule], { workspace_id: "d", key_id: "l" })).policies[0]!.remaining).toBe(3);
  });

  it("refuse when forged rule ids have used up the overflow counters too", () => {
    const clock = handClock();
    const counter = new MemoryCounter({ now: clock.now, bounds });
    fill(counter, "a", 10);
    const rules = ["r1", "r2", "r3"].map((id) => sliding(5, 60_000, { id }));
    expect(rules.map((one) => counter.check(ask([one], { workspace_id: "a" })).allowed)).toEqual([true, true, false]);
    const refused = counter.check(ask([rules[2]!], { workspace_id: "a" }));
    expect(refused).toMatchObject({
      limited_policy: "r3",
      retry_after_seconds: 60,
      policies: [{ remaining: 0, reset_ms: 60_000 }],
    });
    expect(counter.lease({ ...ask([rules[2]!], { workspace_id: "a" }), want: 5 }).granted).toBe(0);
    expect(counter.metrics()).toMatchObject({ counters: 10, overflow_counters: 2, refused_total: 3 });
  });

  it("share an overflow counter in any slot, the first included", () => {
    const clock = handClock();
    const counter = new MemoryCounter({ now: clock.now, bounds: { ...bounds, inAll: 11 } });
    counter.check(ask([sliding(5, 1_000)], { workspace_id: "brief" }));
    fill(counter, "a", 10);
    clock.pass(2_000);
    counter.check(ask([rule], { workspace_id: "c", cost: 0 })); // at the bound the first row is freed
    const newcomers = ["x", "y", "z"].map((key_id) => counter.check(ask([rule], { workspace_id: "a", key_id })));
    expect(newcomers.map(({ policies }) => policies[0]!.remaining)).toEqual([4, 3, 2]);
    expect(counter.metrics()).toMatchObject({ counters: 10, overflow_counters: 1 });
    const later = new MemoryCounter({ now: clock.now, bounds });
    later.load(counter.allRows());
    later.load(counter.allRows()); // the same names again: no row more
    expect(later.metrics()).toMatchObject({ counters: 10, overflow_counters: 1 });
    clock.pass(59_200); // every row of its own has lapsed, what is shared has not
    counter.check(ask([rule], { workspace_id: "a", key_id: "x", cost: 0 }));
    expect(counter.metrics()).toMatchObject({ counters: 0, overflow_counters: 1, workspaces: 1 });
  });

  it("free an expired overflow counter, in its workspace and over all", () => {
    const clock = handClock();
    const counter = new MemoryCounter({ now: clock.now, bounds: { ...bounds, overflowInAll: 2 } });
    const rules = ["r1", "r2"].map((id) => sliding(5, 60_000, { id }));
    for (let round = 0; round < 4; round++) {
      fill(counter, "a", 10);
      for (const one of rules) {
        expect(counter.check(ask([one], { workspace_id: "a", key_id: "late" })).allowed, `${round}`).toBe(true);
      }
      expect(counter.metrics()).toMatchObject({ counters: 10, overflow_counters: 2, workspaces: 1 });
      clock.pass(70_000);
    }
  });

  it("let a workspace that has nothing yet use the overflow counters that are left", () => {
    const clock = handClock();
    const counter = new MemoryCounter({ now: clock.now, bounds: { ...bounds, inAll: 10, overflowPerWorkspace: 1 } });
    fill(counter, "a", 10);
    expect(counter.check(ask([rule], { workspace_id: "b" })).allowed).toBe(true);
    expect(counter.check(ask([sliding(5, 60_000, { id: "more" })], { workspace_id: "b" })).allowed).toBe(false);
  });

  it("never promise the last free row to two rules of one request", () => {
    const clock = handClock();
    const counter = new MemoryCounter({ now: clock.now, bounds });
    const rules = ["r1", "r2", "r3"].map((id) => sliding(5, 60_000, { id }));
    fill(counter, "a", 8);
    expect(counter.check(ask(rules, { workspace_id: "a", key_id: "new" })).allowed).toBe(true);
    expect(counter.metrics()).toMatchObject({ counters: 10, overflow_counters: 1 });
  });

  it("never free an expired row that the same request is about to charge", () => {
    const clock = handClock();
    const counter = new MemoryCounter({ now: clock.now, bounds });
    const [old, late] = [sliding(5, 1_000, { id: "old" }), sliding(5, 60_000, { id: "late" })];
    counter.check(ask([old], { workspace_id: "a", key_id: "k" }));
    fill(counter, "a", 9);
    clock.pass(2_000);
    const both = ask([old, late], { workspace_id: "a", key_id: "k" });
    for (let left = 4; left >= 0; left--) {
      expect(counter.check(both).policies.map((policy) => policy.remaining)).toEqual([left, left]);
    }
    expect(counter.check(both).allowed).toBe(false);
  });

  it("never free a row before its newest units have expired", () => {
    const clock = handClock();
    const counter = new MemoryCounter({ now: clock.now, bounds });
    const busy = ask([rule], { workspace_id: "a", key_id: "busy" });
    counter.check(busy);
    clock.pass(50_000);
    counter.check(busy);
    fill(counter, "a", 9);
    clock.pass(20_000);
    const newcomer = ask([rule], { workspace_id: "a", key_id: "newcomer" });
    for (const left of [4, 3]) expect(counter.check(newcomer).policies[0]!.remaining).toBe(left);
    expect(counter.check({ ...busy, cost: 0 }).policies[0]!.remaining).toBe(4);
    expect(counter.metrics()).toMatchObject({ counters: 10, overflow_counters: 1, lapsed_total: 0 });
  });

  it("are not affected by a peek, a denial or an empty workspace: only charged units use a row", () => {
    const clock = handClock();
    const counter = new MemoryCounter({ now: clock.now, bounds });
    for (let i = 0; i < 50; i++) {
      counter.check(ask([rule], { key_id: `k${i}`, cost: 0 }));
      counter.check(ask([rule], { key_id: `k${i}`, cost: 6 }));
    }
    expect(counter.metrics()).toMatchObject({ counters: 0, workspaces: 0 });
  });

  it("drop a rule with its last counter, and none of those that share its id", () => {
    const clock = handClock();
    const counter = new MemoryCounter({ now: clock.now, bounds: { ...bounds, perWorkspace: 3 } });
    const [short, long] = [sliding(5, 1_000), sliding(5, 2_000)];
    const sweep = () => counter.check(ask([sliding(5, 60_000, { id: "other" })], { key_id: "new", cost: 0 }));
    counter.check(ask([long]));
    counter.check(ask([short]));
    counter.check(ask([sliding(5, 60_000, { id: "other" })]));
    clock.pass(1_100);
    sweep();
    expect(counter.metrics()).toMatchObject({ counters: 2, lapsed_total: 1 });
    counter.check(ask([short], { cost: 3 }));
    clock.pass(950);
    sweep();
    expect(counter.metrics()).toMatchObject({ counters: 2, lapsed_total: 2 });
    expect(counter.check(ask([short], { cost: 0 })).policies[0]!.remaining).toBe(2);
  });

  it("drop a workspace whose counters have all expired", () => {
    const clock = handClock();
    const counter = new MemoryCounter({ now: clock.now, bounds });
    for (const workspace of ["a", "b"]) fill(counter, workspace, 10);
    clock.pass(70_000);
    fill(counter, "c", 10);
    expect(counter.metrics()).toMatchObject({ counters: 10, workspaces: 1, lapsed_total: 20 });
  });
});

describe("the lease table", () => {
  const held = (end: number) => ({ granted: 1, end, slots: [], spans: [] });

  it("is bounded per workspace and over all, and expired leases of any workspace make room", () => {
    const table = new LeaseTable();
    for (let w = 0; w < 11; w++) {
      for (let i = 0; i < LEASES_PER_WORKSPACE_MAX + 5; i++) table.put(`w${w}`, `${w}-${i}`, held(1_000), 0);
    }
    expect([LEASES_PER_WORKSPACE_MAX, LEASES_MAX, table.size]).toEqual([10_000, 100_000, 100_000]);
    expect([table.has("w9", "9-9999"), table.has("w9", "9-10000"), table.has("w10", "10-0")]).toEqual([
      true,
      false,
      false,
    ]);
    table.put("late", "early", held(2_000), 999);
    expect([table.has("late", "early"), table.size]).toEqual([false, 100_000]);
    table.put("late", "now", held(2_000), 1_000);
    expect([table.has("late", "now"), table.size]).toEqual([true, 1]);
  });

  it("returns a lease once, to its own workspace, and not at its end", () => {
    const table = new LeaseTable();
    for (const id of ["a", "b"]) table.put("w", id, held(1_000), 0);
    expect(table.take("other", "a", 1)).toBeNull();
    expect(table.take("w", "a", 999)).toEqual(held(1_000));
    expect(table.take("w", "a", 999)).toBeNull();
    expect(table.take("w", "b", 1_000)).toBeNull();
    expect(table.size).toBe(0);
  });

  it("drops the expired leases of a workspace that takes another one, and only those", () => {
    const table = new LeaseTable();
    for (const end of [1_000, 2_000, 3_000]) table.put("w", `until ${end}`, held(end), 0);
    table.put("w", "new", held(9_000), 2_000);
    expect(table.size).toBe(2);
    expect([table.has("w", "until 2000"), table.has("w", "until 3000"), table.has("w", "new")]).toEqual([
      false,
      true,
      true,
    ]);
    table.put("w", "newer", held(9_999), 9_000);
    expect([table.size, table.has("w", "newer")]).toEqual([1, true]);
  });
});

describe.skipIf(process.env["KEYRACK_TEST_DECISIONS"] === undefined)("bounds at full size", () => {
  it("allow a million counters and not one more", () => {
    const clock = handClock();
    const counter = new MemoryCounter({ now: clock.now });
    for (let w = 0; w < 11; w++) {
      for (let i = 0; i < 110_000; i++) counter.check(ask([rule], { workspace_id: `w${w}`, key_id: `k${i}` }));
    }
    expect(counter.metrics()).toMatchObject({ counters: 1_000_000, overflow_counters: 11 });
  });
});
