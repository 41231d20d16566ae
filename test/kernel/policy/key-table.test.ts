// The key table compared with a plain Map: growth, clusters that wrap around, and churn.

import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Interner } from "../../../src/kernel/policy/interner.ts";
import { EXPIRY, KeyTable, PROFILE, ROW, TENANT } from "../../../src/kernel/policy/key-table.ts";
import { TenantTable } from "../../../src/kernel/policy/tenant-table.ts";
import { digestToWords, uuidToWords, wordsToUuid } from "../../../src/kernel/crypto/word-codec.ts";

/** A row whose digest starts with `first` (its home) and differs from others only in its last word. */
function rowOf(first: number, last: number, mark: number): Int32Array {
  const row = new Int32Array(ROW);
  row[0] = first;
  row[7] = last;
  row[PROFILE] = 1;
  row[TENANT] = mark;
  return row;
}

// Three homes at the end of the table and one at its start: every cluster wraps around.
const homes = fc.constantFrom(-1, -2, 0x7fffffff, 0);
const step = fc.record({ put: fc.boolean(), first: homes, last: fc.integer({ min: 0, max: 12 }), mark: fc.nat(1000) });

describe("the key table", () => {
  it("equals a Map after any mix of puts and removals, in clusters that wrap around", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120, size: "max" }), (steps) => {
        const table = new KeyTable();
        const model = new Map<string, number>();
        for (const { put, first, last, mark } of steps) {
          const row = rowOf(first, last, mark);
          const name = `${first}/${last}`;
          const known = put ? table.put(row) : table.find(row) >= 0;
          expect(known).toBe(model.has(name));
          if (!put && known) table.remove(table.find(row));
          if (put) model.set(name, mark);
          else model.delete(name);
        }
        expect(table.count).toBe(model.size);
        const copied = table.copyRows();
        const marks = Array.from({ length: copied.length / ROW }, (_, i) => copied[i * ROW + TENANT] ?? 0);
        expect(marks.toSorted((a, b) => a - b)).toEqual([...model.values()].toSorted((a, b) => a - b));
        for (const first of [-1, -2, 0x7fffffff, 0]) {
          for (let last = 0; last <= 12; last++) {
            const at = table.find(rowOf(first, last, 0));
            expect(at < 0 ? undefined : table.words[at + TENANT]).toBe(model.get(`${first}/${last}`));
          }
        }
      }),
    );
  });

  it("loses no row when it grows, including the row that made it grow", () => {
    const table = new KeyTable();
    const rows = Array.from({ length: 3_000 }, (_, i) => rowOf(Math.imul(i, 0x9e3779b1), i, i));
    for (const [i, row] of rows.entries()) {
      expect(table.put(row)).toBe(false);
      expect(table.words[table.find(row) + TENANT]).toBe(i);
    }
    expect(rows.filter((row, i) => table.words[table.find(row) + TENANT] !== i)).toEqual([]);
  });

  it("distinguishes digests that differ in any one of their eight words", () => {
    const table = new KeyTable();
    const row = rowOf(5, 6, 7);
    table.put(row);
    for (let word = 0; word < 8; word++) {
      const other = row.slice();
      other[word] = (other[word] ?? 0) ^ 1;
      expect(table.find(other), `word ${word}`).toBeLessThan(0);
    }
  });

  it("takes under 110 bytes per row at a hundred thousand rows", () => {
    const table = new KeyTable();
    for (let i = 0; i < 100_000; i++) table.put(rowOf(Math.imul(i, 0x9e3779b1), i, i));
    expect(table.count).toBe(100_000);
    expect(table.words.byteLength / table.count).toBeLessThan(110);
    for (let i = 0; i < 100_000; i += 997)
      expect(table.find(rowOf(Math.imul(i, 0x9e3779b1), i, 0))).toBeGreaterThan(-1);
  });

  it("does not make misses slower after any number of insertions and removals", () => {
    const table = new KeyTable(1000);
    for (let i = 0; i < 200_000; i++) {
      table.put(rowOf(Math.imul(i, 0x9e3779b1), i, 1));
      if (i >= 1000) table.remove(table.find(rowOf(Math.imul(i - 1000, 0x9e3779b1), i - 1000, 1)));
    }
    expect(table.count).toBe(1000);
    let used = 0;
    for (let at = 0; at < table.words.length; at += ROW) used += table.words[at + PROFILE] === 0 ? 0 : 1;
    expect(used).toBe(1000);
    expect(table.find(rowOf(1, 1, 1))).toBeLessThan(0);
  });

  it("keeps expiries when it grows", () => {
    const table = new KeyTable();
    const row = rowOf(1, 1, 1);
    new Float64Array(row.buffer)[EXPIRY >> 1] = 1_789_000_000_123;
    table.put(row);
    for (let i = 2; i < 5000; i++) table.put(rowOf(i * 77_777, i, i));
    expect(table.times[(table.find(row) + EXPIRY) >> 1]).toBe(1_789_000_000_123);
  });
});

describe("tenants", () => {
  it("are stored once, counted, and removed with their last key, in any order", () => {
    const ids = Array.from({ length: 300 }, (_, i) => Int32Array.of(0x01901640, 0x7000, i % 3, Math.imul(i, 1 << 20)));
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(299), fc.boolean()), { maxLength: 400, size: "max" }), (steps) => {
        const tenants = new TenantTable();
        const model = new Map<number, { id: number; uses: number }>();
        for (const [which, take] of steps) {
          const known = model.get(which);
          if (take)
            model.set(which, { id: tenants.acquire(ids[which] as Int32Array, 0), uses: (known?.uses ?? 0) + 1 });
          else if (known) tenants.release(known.id);
          if (!take && known && --known.uses === 0) model.delete(which);
        }
        expect(tenants.size).toBe(model.size);
        expect(new Set([...model.values()].map(({ id }) => id)).size).toBe(model.size);
        for (const [which, { id }] of model) expect(tenants.text(id)).toBe(wordsToUuid(ids[which] as Int32Array, 0));
      }),
    );
  });
});

describe("many tenants", () => {
  it("are all found after their table has grown several times, each under its own number", () => {
    const tenants = new TenantTable();
    const ids = Array.from({ length: 5_000 }, (_, i) => Int32Array.of(i, Math.imul(i, 0x9e3779b1), 7, i >> 3));
    const taken = ids.map((words) => tenants.acquire(words, 0));
    expect(new Set(taken).size).toBe(ids.length);
    expect(ids.map((words) => tenants.acquire(words, 0))).toEqual(taken);
    for (const [i, words] of ids.entries()) expect(tenants.text(taken[i] as number)).toBe(wordsToUuid(words, 0));
    for (const id of taken) {
      tenants.release(id);
      tenants.release(id);
    }
    expect(tenants.size).toBe(0);
  });
});

describe("interned values", () => {
  it("are created once and removed with their last reference", () => {
    let made = 0;
    const interned = new Interner((key) => {
      made++;
      return { key };
    });
    const a = interned.acquire("a");
    expect(interned.acquire("a")).toBe(a);
    expect(made).toBe(1);
    interned.release(a);
    expect(interned.value(a).key).toBe("a");
    interned.release(a);
    expect(interned.size).toBe(0);
    expect(interned.acquire("b")).toBe(a);
  });
});

describe("ids as words", () => {
  it("round-trip to the same text", () => {
    fc.assert(
      fc.property(fc.uuid(), (id) => {
        const words = new Int32Array(4);
        expect(uuidToWords(id, words, 0)).toBe(true);
        expect(wordsToUuid(words, 0)).toBe(id);
      }),
    );
  });

  it("are rejected in any other form", () => {
    const good = "0190163d-8694-739b-aea5-966c26f8ad91";
    const words = new Int32Array(8);
    const bad = [
      good.slice(1),
      `${good}0`,
      good.replace("-", "0"),
      good.replace("a", "g"),
      good.replace("a", "é"),
      null,
      7,
    ];
    expect(bad.filter((id) => uuidToWords(id, words, 0))).toEqual([]);
    const hashes = ["", "0".repeat(63), "g".repeat(64), `${"0".repeat(63)}é`, undefined, {}];
    expect(hashes.filter((hash) => digestToWords(hash, words, 0))).toEqual([]);
    expect(digestToWords("AB".repeat(32), words, 0)).toBe(true);
  });
});
