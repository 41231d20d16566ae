// The tenant table compared with a plain Map, with ids that mostly collide.
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { TenantTable } from "../../../src/kernel/policy/tenant-table.ts";
import { wordsToUuid } from "../../../src/kernel/crypto/word-codec.ts";

/** Last words whose homes in a small table are the last three and the first three: clusters merge and wrap around. */
const crowded = Array.from({ length: 5_000 }, (_, word) => word).filter(
  (word) => ((Math.imul(word, 0x9e3779b1) >>> 7) + 3) % 128 < 6,
);
const words = (n: number): Int32Array => Int32Array.of(n, ~n, 0, crowded[n] ?? n);
const TEXTS = Array.from({ length: 41 }, (_, n) => wordsToUuid(words(n), 0));

describe("TenantTable", () => {
  it("stores each referenced id once, and counts like a Map", () => {
    const step = fc.record({ id: fc.nat(40), drop: fc.boolean() });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 300, size: "max" }), (steps) => {
        const tenants = new TenantTable();
        const model = new Map<number, { number: number; uses: number }>();
        for (const { id, drop } of steps) {
          const known = model.get(id);
          if (drop) {
            if (!known) continue;
            tenants.release(known.number);
            if (--known.uses === 0) model.delete(id);
          } else {
            const number = tenants.acquire(words(id), 0);
            const taken = known
              ? number !== known.number
              : [...model.values()].some((other) => other.number === number);
            if (taken) throw new Error(`${id} got the number ${number}`);
            model.set(id, { number, uses: (known?.uses ?? 0) + 1 });
          }
          const wrong = [...model].filter(([each, { number }]) => tenants.text(number) !== TEXTS[each]);
          if (wrong.length > 0 || tenants.size !== model.size) throw new Error(`wrong after ${drop ? "-" : "+"}${id}`);
        }
      }),
    );
  });

  it("finds each of thousands of ids, and reuses the number of a removed one", () => {
    const tenants = new TenantTable();
    const numbers = Array.from({ length: 3_000 }, (_, n) => tenants.acquire(words(n), 0));
    expect(numbers).toEqual(Array.from({ length: 3_000 }, (_, n) => n + 1));
    expect(Array.from({ length: 3_000 }, (_, n) => tenants.acquire(words(n), 0))).toEqual(numbers);
    for (const [n, number] of numbers.entries()) expect(tenants.text(number)).toBe(wordsToUuid(words(n), 0));
    for (const n of [7, 7, 8]) tenants.release(numbers[n] as number);
    expect(tenants.size).toBe(2_999);
    expect(tenants.acquire(words(5_000), 0)).toBe(numbers[7]);
    expect(tenants.text(numbers[7] as number)).toBe(wordsToUuid(words(5_000), 0));
    expect(tenants.copyIds().subarray(4, 8)).toEqual(words(0));
    expect(tenants.copyIds().length).toBe(3_001 * 4);
  });
});
