// Multi-row inserts: every row once, in order, in a few chunk sizes.
import { describe, expect, it } from "vitest";
import { chunkRows } from "../../../src/store/engine/bulk-insert.ts";
import { toMultiRow } from "../../../src/store/postgres/multi-row.ts";

describe("chunkRows", () => {
  it.each([0, 1, 3, 4, 5, 63, 64, 65, 200])(
    "splits %d rows into chunks of a few sizes, each row once and in order",
    (count) => {
      const all = chunkRows(count);
      expect(all.flatMap(({ from, to }) => Array.from({ length: to - from }, (_, i) => from + i))).toEqual([
        ...Array.from({ length: count }).keys(),
      ]);
      for (const { from, to } of all) expect([1, 2, 4, 8, 16, 32, 64]).toContain(to - from);
    },
  );
});

describe("toMultiRow", () => {
  it("numbers the parameters of every row", () => {
    const sql = 'insert into "t" ("a", "b") values ($1, $2)';
    expect(toMultiRow(sql, 1)).toBe(sql);
    expect(toMultiRow(sql, 3)).toBe('insert into "t" ("a", "b") values ($1, $2), ($3, $4), ($5, $6)');
  });

  it("keeps what follows the rows", () => {
    const sql = 'insert into "t" ("a") values ($1) on conflict ("a") do nothing';
    expect(toMultiRow(sql, 2)).toBe('insert into "t" ("a") values ($1), ($2) on conflict ("a") do nothing');
  });

  it.each([
    'insert into "t" ("a") values ($1) on conflict ("a") do update set "b" = $2',
    'insert into "t" ("a") values ($1) returning "a"',
    'update "t" set "a" = $1',
  ])("rejects %s", (sql) => {
    expect(() => toMultiRow(sql, 2)).toThrow("not a one-row insert");
  });
});
