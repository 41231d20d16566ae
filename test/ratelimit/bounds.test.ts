// The bounds of the in-process counters: forged ids exhaust neither memory nor another caller's limit.
import { tmpdir } from "node:os";
import { describe, expect, it } from "vitest";
import { loadSettings } from "../../src/config/load.ts";
import { Ledger } from "../../src/fairness/ledger.ts";
import { cellOwner } from "../../src/fairness/owners.ts";
import { sharesTable } from "../../src/fairness/shares.ts";
import type { MemoryCounter } from "../../src/ratelimit/memory/counter.ts";
import { LeaseTable } from "../../src/ratelimit/memory/leases.ts";
import { ask, sliding } from "../../harness/ratelimit/counters.ts";
import { memoryCounter } from "../../harness/ratelimit/memory-counter.ts";
import { handClock } from "../../harness/ratelimit/scenarios.ts";

const rule = sliding(5, 60_000);

describe("a workspace at its cap of counters", () => {
  const victim = ask([rule], { workspace_id: "victim", cost: 4 });
  const full = (counters: number) => {
    const clock = handClock();
    const counter = memoryCounter(clock.now, { bounds: { counters, overflow: 100 } });
    counter.check(victim);
    for (let i = 0; i < 1.05 * counters; i++)
      counter.check(ask([rule], { workspace_id: "forger", key_id: `forged-${i}` }));
    return { clock, counter };
  };

  it("holds exactly that number, by default 100 000, and one overflow counter for the rule", () => {
    const { settings } = loadSettings({ env: {}, flags: {}, cwd: tmpdir() });
    expect(settings.ratelimit_counters_per_workspace).toBe(100_000);
    const { counter } = full(10_000);
    expect(counter.metrics()).toMatchObject({ counters: 10_001, overflow_counters: 1, cells: 2 });
    expect(counter.metrics().overflowed_total).toBe(500);
  });

  it("counts new subjects together and never admits one uncounted", () => {
    const { counter } = full(1_000);
    for (let i = 0; i < 10; i++) {
      const verdict = counter.check(ask([rule], { workspace_id: "forger", key_id: `another-${i}` }));
      expect(verdict).toMatchObject({ allowed: false, limited_policy: "rule", policies: [{ remaining: 0 }] });
    }
  });

  it("keeps existing counters, new subjects of other rules, and other workspaces apart", () => {
    const { counter } = full(1_000);
    expect(counter.check(ask([rule], { workspace_id: "forger", key_id: "forged-7" })).policies[0]!.remaining).toBe(3);
    const other = counter.check(ask([sliding(5, 60_000, { id: "other" })], { workspace_id: "forger", key_id: "x" }));
    expect(other.policies[0]!.remaining).toBe(4);
    expect(counter.check({ ...victim, cost: 0 }).policies[0]!.remaining).toBe(1);
    expect(counter.check({ ...victim, key_id: "new" }).allowed).toBe(true);
  });

  it("frees expired counters first: after a window every new subject gets its own row again", () => {
    const { clock, counter } = full(1_000);
    clock.pass(61_001);
    const { overflowed_total } = counter.metrics();
    const left = new Set<number>();
    for (let i = 0; i < 200; i++) {
      const late = ask([rule], { workspace_id: "forger", key_id: `late-${i}` });
      left.add(counter.check(late).policies[0]!.remaining);
      // One request frees at most a hundred rows; the next one continues from there.
      if (i === 0) expect(counter.metrics().lapsed_total).toBe(100);
    }
    expect([...left]).toEqual([4]);
    expect(counter.metrics().overflowed_total).toBe(overflowed_total);
    expect(counter.metrics().counters).toBeLessThanOrEqual(1_002);
  });
});

const OF_A_SLIDING_RULE = { row: 2, rule: 10 };

/** Bounds of a cell, and how many sliding counters of `rules` rules there is room for in all. */
function bounded(now: () => number, { counters = 10, overflow = 2, inAll = 25, rules = 1 } = {}): MemoryCounter {
  const { row, rule } = OF_A_SLIDING_RULE;
  const places = new Ledger({ bound: inAll * row + rules * rule, share: Number.POSITIVE_INFINITY });
  return memoryCounter(now, { places, bounds: { counters, overflow } });
}

describe("small bounds", () => {
  const fill = (counter: MemoryCounter, workspace_id: string, count: number) => {
    for (let i = 0; i < count; i++) counter.check(ask([rule], { workspace_id, key_id: `k${i}` }));
  };

  it("refuse when forged rule ids have used up the overflow counters too", () => {
    const clock = handClock();
    const counter = bounded(clock.now);
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
    const counter = bounded(clock.now, { inAll: 14, rules: 2 });
    counter.check(ask([sliding(5, 1_000)], { workspace_id: "brief" }));
    fill(counter, "a", 10);
    clock.pass(2_000);
    counter.check(ask([rule], { workspace_id: "c", cost: 0 })); // at the bound the first row is freed
    const newcomers = ["x", "y", "z"].map((key_id) => counter.check(ask([rule], { workspace_id: "a", key_id })));
    expect(newcomers.map(({ policies }) => policies[0]!.remaining)).toEqual([4, 3, 2]);
    expect(counter.metrics()).toMatchObject({ counters: 10, overflow_counters: 1 });
    const later = bounded(clock.now);
    const saved = counter.dirtyRows(100);
    later.load(saved);
    later.load(saved); // the same names again: no row more
    expect(later.metrics()).toMatchObject({ counters: 10, overflow_counters: 1 });
    clock.pass(59_200); // every row of its own has expired, what is shared has not
    counter.check(ask([rule], { workspace_id: "a", key_id: "x", cost: 0 }));
    expect(counter.metrics()).toMatchObject({ counters: 0, overflow_counters: 1, cells: 1 });
  });

  it("free an expired overflow counter, in its workspace and over all", () => {
    const clock = handClock();
    const counter = bounded(clock.now, { rules: 3 });
    const rules = ["r1", "r2"].map((id) => sliding(5, 60_000, { id }));
    for (let round = 0; round < 4; round++) {
      fill(counter, "a", 10);
      for (const one of rules) {
        expect(counter.check(ask([one], { workspace_id: "a", key_id: "late" })).allowed, `${round}`).toBe(true);
      }
      expect(counter.metrics()).toMatchObject({ counters: 10, overflow_counters: 2, cells: 1 });
      clock.pass(70_000);
    }
  });

  it("never promise the last free row to two rules of one request", () => {
    const clock = handClock();
    const counter = bounded(clock.now, { rules: 4 });
    const rules = ["r1", "r2", "r3"].map((id) => sliding(5, 60_000, { id }));
    fill(counter, "a", 8);
    expect(counter.check(ask(rules, { workspace_id: "a", key_id: "new" })).allowed).toBe(true);
    expect(counter.metrics()).toMatchObject({ counters: 10, overflow_counters: 1 });
  });

  it("never free an expired row that the same request is about to charge", () => {
    const clock = handClock();
    const counter = bounded(clock.now);
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
    const counter = bounded(clock.now);
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
    const counter = bounded(clock.now);
    for (let i = 0; i < 50; i++) {
      counter.check(ask([rule], { key_id: `k${i}`, cost: 0 }));
      counter.check(ask([rule], { key_id: `k${i}`, cost: 6 }));
    }
    expect(counter.metrics()).toMatchObject({ counters: 0, cells: 0 });
  });

  it("drop a rule with its last counter, and none of those that share its id", () => {
    const clock = handClock();
    const counter = bounded(clock.now, { counters: 3 });
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
    const counter = bounded(clock.now);
    for (const workspace of ["a", "b"]) fill(counter, workspace, 10);
    clock.pass(70_000);
    fill(counter, "c", 10);
    expect(counter.metrics()).toMatchObject({ counters: 10, cells: 1, lapsed_total: 20 });
  });
});

describe("the lease table", () => {
  const held = (end: number) => ({ granted: 1, end, booked: [] });
  const owners = Array.from({ length: 12 }, (_, i) => cellOwner(`w${i}`, "live"));
  const put = (table: LeaseTable, w: number, id: string, end: number, now: number) =>
    table.put(owners[w]!, `w${w}`, id, held(end), now);

  it("is bounded per cell and over all; at the bound the largest cell's oldest lease makes room", () => {
    const table = new LeaseTable(new Ledger({ bound: 10, share: 6 }));
    for (let i = 0; i < 8; i++) put(table, 0, `0-${i}`, 1_000, 0);
    for (let i = 0; i < 4; i++) put(table, 1, `1-${i}`, 1_000, 0);
    expect([table.size, table.has("w0", "0-1"), table.has("w0", "0-2")]).toEqual([10, false, true]);
    put(table, 2, "2-0", 1_000, 0);
    expect([table.size, table.has("w2", "2-0"), table.has("w0", "0-2"), table.has("w1", "1-0")]).toEqual([
      10,
      true,
      false,
      true,
    ]);
  });

  it("returns a lease once, to its own workspace, and not at its end", () => {
    const table = new LeaseTable(new Ledger(sharesTable.leases.limits()));
    for (const id of ["a", "b"]) put(table, 0, id, 1_000, 0);
    expect(table.take("other", "a", 1)).toBeNull();
    expect(table.take("w0", "a", 999)).toMatchObject(held(1_000));
    expect(table.take("w0", "a", 999)).toBeNull();
    expect(table.take("w0", "b", 1_000)).toBeNull();
    expect(table.size).toBe(0);
  });

  it("drops expired leases, of any cell, when another one is put", () => {
    const table = new LeaseTable(new Ledger(sharesTable.leases.limits()));
    for (const [w, end] of [1_000, 2_000, 3_000].entries()) put(table, w, `until ${end}`, end, 0);
    put(table, 0, "new", 9_000, 2_000);
    expect(table.size).toBe(2);
    expect([table.has("w2", "until 3000"), table.has("w0", "new")]).toEqual([true, true]);
    put(table, 1, "newer", 9_999, 9_000);
    expect([table.size, table.has("w1", "newer")]).toEqual([1, true]);
  });
});
