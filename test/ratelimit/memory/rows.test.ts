// Counter rows compared with a plain map of spans: charged, credited, expired and reused.
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CounterRows } from "../../../src/ratelimit/memory/rows.ts";
import { SUB_WINDOWS, SUB_WINDOWS_AHEAD } from "../../../src/kernel/ratelimit/window.ts";

describe("a row", () => {
  it("is empty when it is reused, in any chunk", () => {
    const rows = new CounterRows();
    const slots = Array.from({ length: 3_000 }, () => rows.allocate());
    expect(new Set(slots).size).toBe(slots.length);
    for (const slot of slots) for (let span = 100; span < 130; span++) rows.add(slot, span, slot + 1);
    for (const slot of slots.filter((slot) => slot % 2 === 0)) rows.release(slot);
    for (const slot of slots.filter((slot) => slot % 2 === 1)) {
      expect(rows.expireBefore(slot, 0)).toBe(30 * (slot + 1));
      expect(rows.spans(slot)).toEqual(Array.from({ length: 30 }, () => slot + 1));
    }
    for (let i = 0; i < 1_500; i++) {
      const slot = rows.allocate();
      expect(slot % 2).toBe(0); // a free row before a new one
      expect([rows.expireBefore(slot, 0), rows.spans(slot), rows.until[slot]]).toEqual([0, [], 0]);
      rows.add(slot, 5, 7);
      expect([rows.expireBefore(slot, 0), rows.spans(slot), rows.oldest(slot)]).toEqual([7, [7], 5]);
    }
    expect(rows.high).toBe(3_000);
  });

  it("reports the first units of each span, and keeps the longest expiry it was given", () => {
    const rows = new CounterRows();
    const slot = rows.allocate();
    expect([rows.add(slot, 5, 1), rows.add(slot, 5, 1), rows.add(slot, 6, 1), rows.add(slot, 6, 2)]).toEqual([
      true,
      false,
      true,
      false,
    ]);
    for (const until of [50, 70, 60]) rows.keepUntil(slot, until);
    expect(rows.until[slot]).toBe(70);
    for (let i = 0; i < 3_000; i++) rows.allocate(); // more than one widening of the column
    expect([rows.until[slot], rows.until[3_000], rows.until[3_001]]).toEqual([70, 0, Infinity]);
  });

  it("reports full only when the next row needs another chunk", () => {
    const rows = new CounterRows();
    const fullAt: number[] = [];
    for (let i = 0; i < 2_100; i++) {
      if (rows.full) fullAt.push(i);
      rows.allocate();
    }
    expect(fullAt).toEqual([0, 1024, 2048]);
    rows.release(3);
    expect(rows.full).toBe(false);
  });

  it("holds what a plain map would, whatever is charged, credited or expired", () => {
    const step = fc.record({
      what: fc.constantFrom("add", "add", "remove", "expire"),
      ahead: fc.integer({ min: -70, max: SUB_WINDOWS_AHEAD }),
      units: fc.integer({ min: 1, max: 9 }),
      pass: fc.integer({ min: 0, max: 20 }),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 80, size: "max" }), (steps) => {
        const rows = new CounterRows();
        const slot = rows.allocate();
        const model = new Map<number, number>();
        let now = 1_000;
        for (const { what, ahead, units, pass } of steps) {
          now += pass;
          const oldest = now - SUB_WINDOWS;
          for (const span of model.keys()) if (span < oldest) model.delete(span);
          rows.expireBefore(slot, oldest);
          const span = now + (what === "add" ? Math.max(0, ahead) : ahead);
          const held = model.get(span) ?? 0;
          if (what === "add") {
            rows.add(slot, span, units);
            model.set(span, held + units);
          } else if (what === "remove") {
            rows.remove(slot, span, units);
            model.set(span, Math.max(0, held - units));
          }
          if (model.get(span) === 0) model.delete(span);
          const spans = [...model.keys()].toSorted((a, b) => a - b);
          const [first = 0, last = -1] = [spans[0], spans.at(-1)];
          const counts = Array.from({ length: last - first + 1 }, (_, i) => model.get(first + i) ?? 0);
          expect(rows.expireBefore(slot, oldest)).toBe(counts.reduce((sum, n) => sum + n, 0));
          expect(rows.spans(slot)).toEqual(counts);
          if (counts.length > 0) expect(rows.oldest(slot)).toBe(first);
        }
      }),
      { numRuns: 500 },
    );
  });

  it("finds the span whose expiry frees a number of units", () => {
    const rows = new CounterRows();
    const slot = rows.allocate();
    rows.add(slot, 10, 2);
    rows.add(slot, 12, 3);
    expect([1, 2, 3, 5].map((units) => rows.spanFreeing(slot, units))).toEqual([10, 10, 12, 12]);
  });
});
