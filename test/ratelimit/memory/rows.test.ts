// Counter rows compared with a plain map of spans: charged, credited, expired and reused.
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CHARGED, CounterRows, DIRTY } from "../../../src/ratelimit/memory/rows.ts";
import { SUB_WINDOWS, SUB_WINDOWS_AHEAD } from "../../../src/kernel/ratelimit/window.ts";
import { propertyRuns } from "../../../harness/rounds.ts";

describe("a row", () => {
  it("is empty when it is reused, in any chunk", () => {
    const rows = new CounterRows();
    const slots = Array.from({ length: 3_000 }, () => rows.allocate(true));
    expect(new Set(slots).size).toBe(slots.length);
    for (const slot of slots) for (let span = 100; span < 130; span++) rows.add(slot, span, slot + 1);
    const freed = new Set<number>();
    for (const slot of slots.filter((_, i) => i % 2 === 0)) for (const place of [slot, slot + 1]) freed.add(place);
    for (const slot of slots.filter((slot) => freed.has(slot))) rows.release(slot);
    for (const slot of slots.filter((slot) => !freed.has(slot))) {
      expect(rows.expireBefore(slot, 0)).toBe(30 * (slot + 1));
      expect(rows.spans(slot)).toEqual(Array.from({ length: 30 }, () => slot + 1));
    }
    for (let i = 0; i < 1_500; i++) {
      const slot = rows.allocate(true);
      expect(freed.has(slot)).toBe(true); // a free place before a new one
      expect([rows.expireBefore(slot, 0), rows.spans(slot)]).toEqual([0, []]);
      rows.add(slot, 5, 7);
      expect([rows.expireBefore(slot, 0), rows.spans(slot), rows.oldest(slot)]).toEqual([7, [7], 5]);
    }
    expect(rows.full).toBe(true);
  });

  it("knows its newest span until it is empty", () => {
    const rows = new CounterRows();
    const slot = rows.allocate(true);
    const newest = [5, 9, 7].map((span) => {
      rows.add(slot, span, 1);
      return rows.newest(slot);
    });
    rows.expireBefore(slot, 8);
    newest.push(rows.newest(slot));
    rows.remove(slot, 9, 1);
    rows.add(slot, 10, 1);
    expect([...newest, rows.newest(slot)]).toEqual([5, 9, 9, 9, 10]);
  });

  it("takes one place under a fixed rule and two under a sliding one, and gives them back", () => {
    const rows = new CounterRows();
    const [fixed, sliding] = [rows.allocate(false), rows.allocate(true)];
    expect([fixed, sliding].map((slot) => rows.placesOf(slot))).toEqual([1, 2]);
    for (const slot of [fixed, sliding]) rows.release(slot);
    expect(rows.full).toBe(false);
    for (let i = 0; i < 3; i++) rows.allocate(false);
    expect(rows.full).toBe(true);
  });

  it("keeps its flags whatever is charged or expired", () => {
    const rows = new CounterRows();
    const slot = rows.allocate(true);
    rows.mark(slot, DIRTY, true);
    rows.add(slot, 5, 1);
    expect([rows.has(slot, DIRTY), rows.has(slot, CHARGED)]).toEqual([true, true]);
    rows.mark(slot, CHARGED, false);
    rows.expireBefore(slot, 70);
    expect([rows.has(slot, DIRTY), rows.has(slot, CHARGED)]).toEqual([true, false]);
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
        const slot = rows.allocate(true);
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
      { numRuns: propertyRuns(500) },
    );
  });

  it("finds the span whose expiry frees a number of units", () => {
    const rows = new CounterRows();
    const slot = rows.allocate(true);
    rows.add(slot, 10, 2);
    rows.add(slot, 12, 3);
    expect([1, 2, 3, 5].map((units) => rows.spanFreeing(slot, units))).toEqual([10, 10, 12, 12]);
  });
});
