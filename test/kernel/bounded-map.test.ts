import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BoundedMap } from "../../src/kernel/bounded-map.ts";

function filled(max: number, more: { evictAtOnce?: number } = {}) {
  const evicted: [string, number][] = [];
  const map = new BoundedMap<string, number>({ max, ...more, onEvict: (value, key) => evicted.push([key, value]) });
  for (let i = 0; i < max; i++) map.set(`k${i}`, i);
  return { map, evicted };
}

describe("BoundedMap", () => {
  it("evicts the oldest entry when a new one is added at the bound", () => {
    const { map, evicted } = filled(3);
    map.set("new", 9);
    expect([...map.keys()]).toEqual(["k1", "k2", "new"]);
    expect(evicted).toEqual([["k0", 0]]);
  });

  it("evicts nothing when a value is replaced, and keeps the entry's age", () => {
    const { map, evicted } = filled(3);
    map.set("k0", 7);
    expect(evicted).toEqual([]);
    map.set("new", 9);
    expect(evicted).toEqual([["k0", 7]]);
  });

  it("evicts the least recently used entry where hits are touched", () => {
    const { map } = filled(3);
    map.touch("k0");
    map.touch("unknown");
    map.set("new", 9);
    expect([...map]).toEqual([
      ["k2", 2],
      ["k0", 0],
      ["new", 9],
    ]);
  });

  it("evicts several entries at a time, up to all of them", () => {
    const some = filled(10, { evictAtOnce: 4 });
    some.map.set("new", 9);
    expect([some.map.size, some.evicted.length]).toEqual([7, 4]);
    const all = filled(10, { evictAtOnce: 10 });
    all.map.set("new", 9);
    expect([...all.map.keys()]).toEqual(["new"]);
  });

  it("does not call back for a deleted or cleared entry", () => {
    const { map, evicted } = filled(2);
    map.delete("k0");
    map.clear();
    expect(evicted).toEqual([]);
  });

  it("never exceeds its bound and always holds the newest entry", () => {
    const operation = fc.record({ key: fc.nat(20), kind: fc.constantFrom("set", "touch", "delete") });
    fc.assert(
      fc.property(
        fc.array(operation),
        fc.integer({ min: 1, max: 8 }),
        fc.integer({ min: 1, max: 8 }),
        (ops, max, n) => {
          const map = new BoundedMap<number, number>({ max, evictAtOnce: Math.min(n, max) });
          for (const { key, kind } of ops) {
            if (kind === "set") map.set(key, key);
            else if (kind === "touch") map.touch(key);
            else map.delete(key);
            expect(map.size).toBeLessThanOrEqual(max);
            if (kind === "set") expect(map.get(key)).toBe(key);
          }
        },
      ),
    );
  });
});
