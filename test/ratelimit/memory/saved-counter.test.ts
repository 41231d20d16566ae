// What a restart keeps of the counters (docs/design/0012-counters-and-leases.md).
import { describe, expect, it } from "vitest";
import {
  formatWindows,
  keyOf,
  parseKey,
  parseWindows,
  type SavedCounter,
} from "../../../src/ratelimit/memory/saved-counter.ts";
import { LIMIT_MAX } from "../../../src/kernel/ratelimit/rule.ts";
import { ask, fixed, sliding } from "../../../harness/ratelimit/counters.ts";
import { seeded } from "../../../harness/random.ts";
import { memoryCounter } from "../../../harness/ratelimit/memory-counter.ts";
import { decision, handClock } from "../../../harness/ratelimit/scenarios.ts";
import { START } from "../../../harness/ratelimit/traffic.ts";

const month = sliding(1_000, 2_678_400_000, { id: "month" });
const day = fixed(500, 86_400_000, { id: "day", scope: "tenant" });
const minute = sliding(100, 60_000, { id: "minute" });
const second = sliding(50, 1_000, { id: "second" });

const idOf = (n: number): string => `00000000-0000-4000-8000-${n.toString(16).padStart(12, "0")}`;
const [A, B, C, D] = [idOf(1), idOf(2), idOf(3), idOf(4)];

function table(): { rows: Map<string, SavedCounter>; save(rows: Iterable<SavedCounter>): void } {
  const rows = new Map<string, SavedCounter>();
  return {
    rows,
    save: (more) => {
      for (const row of more) rows.set(row.key, row);
    },
  };
}

describe("saved counters", () => {
  it("restore every window of 60 s and more, leases booked ahead included", () => {
    const random = seeded(3);
    const clock = handClock();
    const before = memoryCounter(clock.now);
    const saved = table();
    const keys = [null, "k1", "k2", "k3"];
    const requests = keys.map((key_id) => ask([month, day, minute], { key_id, tenant_id: key_id }));
    for (let i = 0; i < 2_000; i++) {
      clock.pass(random.int(0, 200));
      const request = random.pick(requests);
      if (random.next() < 0.1) before.lease({ ...request, want: random.int(1, 9) });
      else before.check({ ...request, cost: random.int(0, 3) });
      if (i % 100 === 0) saved.save(before.dirtyRows(5_000));
    }
    saved.save(before.dirtyRows(5_000));
    const after = memoryCounter(clock.now);
    expect(after.load(saved.rows.values())).toBe(saved.rows.size);
    for (let i = 0; i < 500; i++) {
      clock.pass(random.int(0, 500));
      const request = { ...random.pick(requests), cost: random.int(0, 4) };
      expect(decision(after.check(request)), `step ${i}`).toEqual(decision(before.check(request)));
    }
  });

  it("are returned once per change, oldest first, and again when saving failed", () => {
    const clock = handClock();
    const counter = memoryCounter(clock.now);
    for (const key_id of [A, B, C]) counter.check(ask([minute], { key_id }));
    const subjects = (rows: SavedCounter[]) => rows.map((row) => parseKey(row.key)!.subject);
    const first = counter.dirtyRows(2);
    expect(subjects(first)).toEqual([A, B]);
    counter.check(ask([minute], { key_id: A }));
    expect(subjects(counter.dirtyRows(10))).toEqual([C, A]);
    expect(counter.dirtyRows(10)).toEqual([]);
    counter.requeue(first);
    expect(subjects(counter.dirtyRows(10))).toEqual([A, B]);
    expect(counter.metrics().dirty).toBe(0);
  });

  it("are queued once each, however many have changed and however often", () => {
    const clock = handClock();
    const counter = memoryCounter(clock.now);
    const touch = (from: number, to: number) => {
      for (let i = from; i < to; i++) counter.check(ask([minute], { key_id: idOf(i) }));
    };
    touch(0, 3_000);
    touch(0, 3_000);
    expect(counter.metrics().dirty).toBe(3_000);
    const subjects: string[] = [];
    for (let rows = counter.dirtyRows(700); rows.length > 0; rows = counter.dirtyRows(700)) {
      subjects.push(...rows.map((row) => parseKey(row.key)!.subject));
      expect(counter.metrics().dirty).toBe(Math.max(0, (subjects.length <= 1_400 ? 3_000 : 3_010) - subjects.length));
      if (subjects.length === 1_400) touch(3_000, 3_010);
    }
    expect(subjects.every((subject, i) => subject === idOf(i))).toBe(true);
  });

  it("are taken from each cell in turn: a flood of one does not delay another", () => {
    const clock = handClock();
    const counter = memoryCounter(clock.now);
    for (let i = 0; i < 3_000; i++) counter.check(ask([minute], { key_id: idOf(i), env: "test" }));
    for (let i = 0; i < 500; i++) counter.check(ask([minute], { key_id: idOf(i) }));
    const live = counter.dirtyRows(1_000).filter((row) => parseKey(row.key)?.env === "live");
    expect([live.length, counter.metrics().dirty]).toEqual([500, 2_500]);
  });

  it("of long windows are taken before the others at shutdown", () => {
    const clock = handClock();
    const counter = memoryCounter(clock.now);
    for (let i = 0; i < 300; i++) counter.check(ask(i % 3 === 0 ? [minute, month] : [minute], { key_id: idOf(i) }));
    const windows = (rows: SavedCounter[]) => new Set(rows.map((row) => parseKey(row.key)?.window_ms));
    expect(windows(counter.dirtyRows(60, 86_400_000))).toEqual(new Set([month.window_ms]));
    expect(counter.dirtyRows(1_000, 86_400_000)).toHaveLength(40);
    expect(counter.dirtyRows(1_000, 86_400_000)).toEqual([]);
    expect(counter.dirtyRows(1_000)).toHaveLength(300);
  });

  it("name a subject that is no UUID by the UUID of its hash, and find it again", () => {
    const clock = handClock();
    const counter = memoryCounter(clock.now);
    for (const key_id of ["short", "g".repeat(36), `A${B.slice(1)}`, `a${B.slice(1)}`])
      counter.check(ask([minute], { key_id, cost: 7 }));
    const rows = counter.dirtyRows(10);
    expect(new Set(rows.map((row) => parseKey(row.key)?.subject)).size).toBe(4);
    const later = memoryCounter(clock.now);
    expect(later.load(rows)).toBe(4);
    expect(later.check(ask([minute], { key_id: "short", cost: 0 })).policies[0]!.remaining).toBe(93);
  });

  it("exclude the effect of a peek, a denial or a short window", () => {
    const clock = handClock();
    const counter = memoryCounter(clock.now);
    counter.check(ask([month], { cost: 0 }));
    counter.check(ask([month], { cost: 1_001 }));
    counter.check(ask([second]));
    expect(counter.dirtyRows(10)).toEqual([]);
  });

  it("carry their expiry, and are dropped after it", () => {
    const clock = handClock();
    const counter = memoryCounter(clock.now);
    counter.check(ask([minute], { cost: 100 }));
    const rows = counter.dirtyRows(10);
    expect(rows).toHaveLength(1);
    const { lapses_at } = rows[0]!;
    expect(lapses_at).toBeGreaterThan(START + 60_000);
    for (const [at, remaining] of [
      [lapses_at - 1, 0],
      [lapses_at, 100],
    ] as const) {
      const later = memoryCounter(() => at);
      later.load(rows);
      expect(later.check(ask([minute], { cost: 0 })).policies[0]!.remaining).toBe(remaining);
    }
  });

  it("exclude rows that were freed", () => {
    const clock = handClock();
    const counter = memoryCounter(clock.now, { bounds: { counters: 3 } });
    for (const key_id of ["a", "b", "c"]) counter.check(ask([minute], { key_id }));
    clock.pass(62_000);
    counter.check(ask([minute], { key_id: D })); // at the bound: expired rows are freed
    expect(counter.dirtyRows(10).map((row) => parseKey(row.key)?.subject)).toEqual([D]);
  });

  it("exclude returned lease units", () => {
    const clock = handClock();
    const counter = memoryCounter(clock.now);
    const { lease_id } = counter.lease({ ...ask([minute]), want: 40 });
    counter.dirtyRows(10);
    counter.returnLease("w1", lease_id!, 40);
    const changed = counter.dirtyRows(10);
    expect(changed).toHaveLength(1);
    const later = memoryCounter(clock.now);
    expect(later.load(changed)).toBe(0);
    expect(later.check(ask([minute], { cost: 0 })).policies[0]!.remaining).toBe(100);
  });

  it("keep an overflow counter's count", () => {
    const clock = handClock();
    const counter = memoryCounter(clock.now, { bounds: { counters: 1 } });
    for (const key_id of ["a", "b", "c"]) counter.check(ask([minute], { key_id, cost: 10 }));
    const later = memoryCounter(clock.now, { bounds: { counters: 1 } });
    expect(later.load(counter.dirtyRows(10))).toBe(2);
    expect(later.metrics()).toMatchObject({ counters: 1, overflow_counters: 1 });
    expect(later.check(ask([minute], { key_id: "d", cost: 0 })).policies[0]!.remaining).toBe(80);
  });

  it.each([
    ["at the same cap", 4],
    ["when the cap was raised between two runs", 100],
  ])("of a rule that overflowed count apart again, in pages of the order of keys, %s", (_, counters) => {
    const clock = handClock();
    const before = memoryCounter(clock.now, { bounds: { counters: 4 } });
    const limits = [sliding(10, 60_000)];
    const own = [null, A, B, C];
    for (const key_id of own) before.check(ask(limits, { key_id, cost: 9 }));
    for (const key_id of [D, idOf(5)]) before.check(ask(limits, { key_id, cost: 4 })); // share the overflow counter
    const rows = before.dirtyRows(10).toSorted((a, b) => (a.key < b.key ? -1 : 1));
    expect(rows.map((row) => parseKey(row.key)!.subject)).toEqual(["*", "-", A, B, C]);
    const after = memoryCounter(clock.now, { bounds: { counters } });
    expect([after.load(rows.slice(0, 3), { more: true }), after.load(rows.slice(3))]).toEqual([3, 2]);
    expect(after.metrics()).toMatchObject({ counters: 4, overflow_counters: 1 });
    const left = (key_id: string | null) => after.check(ask(limits, { key_id, cost: 0 })).policies[0]!.remaining;
    expect(own.map(left)).toEqual([1, 1, 1, 1]);
    expect([D, idOf(5), idOf(6)].map(left)).toEqual([2, 2, 2]);
  });

  it("count as of now when the clock was set back between two runs", () => {
    const clock = handClock();
    const counter = memoryCounter(clock.now);
    counter.check(ask([minute, day], { cost: 60 }));
    const later = memoryCounter(() => START - 86_400_000 * 3);
    later.load(counter.dirtyRows(10));
    expect(later.check(ask([minute, day])).policies.map((policy) => policy.remaining)).toEqual([39, 439]);
    expect(later.check(ask([minute, day], { cost: 40 })).limited_policy).toBe("minute");
  });

  it("count as of that restart also in later ones, when the clock was set back before the first", () => {
    const clock = handClock();
    const counter = memoryCounter(clock.now);
    counter.check(ask([minute, day], { cost: 60 }));
    const saved = table();
    saved.save(counter.dirtyRows(10));
    const back = START - 86_400_000 * 3;
    for (const passed of [0, 86_400_000]) {
      const later = memoryCounter(() => back + passed);
      later.load(saved.rows.values());
      saved.save(later.dirtyRows(10));
      const left = later.check(ask([minute, day])).policies.map((policy) => policy.remaining);
      expect(left).toEqual(passed === 0 ? [39, 439] : [99, 499]);
    }
  });

  it("skip rows that this version did not write, and continue", () => {
    const clock = handClock();
    const counter = memoryCounter(clock.now);
    counter.check(ask([minute]));
    const [good] = counter.dirtyRows(10);
    const odd = ["", "a/b/c", "w/p/live/key/s/id/sliding/x", "w/p/prod/key/s/id/sliding/60000"];
    const bad = [
      ...odd.map((key) => ({ ...good!, key })),
      ...["", "zz", "1:zzzzzzzzz", "-1:5", "1:1:1"].map((windows) => ({ ...good!, windows })),
    ];
    const later = memoryCounter(clock.now);
    expect(later.load([...bad, good!])).toBe(1);
  });

  it("have a readable key and text", () => {
    const name = { ...minute, workspace_id: "w", project_id: "p", env: "live", subject: "-" } as const;
    expect(keyOf(name)).toBe("w/p/live/key/-/minute/sliding/60000");
    expect(parseKey(keyOf(name))).toEqual({
      workspace_id: "w",
      project_id: "p",
      env: "live",
      scope: "key",
      subject: "-",
      id: "minute",
      algorithm: "sliding",
      window_ms: 60_000,
    });
    expect(parseKey(keyOf({ ...name, window_ms: 1 }))?.window_ms).toBe(1);
    for (const window_ms of [0, -1, 1.5]) expect(parseKey(keyOf({ ...name, window_ms }))).toBeNull();
    expect(parseKey(`${keyOf(name)}/more`)).toBeNull();
    const parts = keyOf(name).split("/");
    for (const i of parts.keys()) expect(parseKey(parts.with(i, "").join("/")), `without part ${i}`).toBeNull();
    expect(formatWindows(1_812_345_678, [5, 0, 10])).toBe("tz0uvi:5,,a");
    expect(parseWindows("tz0uvi:5,,a")).toEqual({ first: 1_812_345_678, counts: [5, 0, 10] });
    // At most the highest limit.
    expect(parseWindows(formatWindows(5, [LIMIT_MAX - 1, 1]))?.counts).toEqual([LIMIT_MAX - 1, 1]);
    expect(parseWindows(formatWindows(5, [LIMIT_MAX, 1]))).toBeNull();
  });
});
