// Inserts of several rows for PostgreSQL: every row once, in its order, in few shapes.
import { describe, expect, it } from "vitest";
import { chunks, widen } from "../../src/store/pg-rows.ts";

describe("rows in pieces", () => {
  it.each([0, 1, 3, 4, 5, 63, 64, 65, 200])("keeps each of %d rows once, in order", (count) => {
    const rows = Array.from({ length: count }, (_, i) => [i]);
    const pieces = chunks(rows);
    expect(pieces.flat()).toEqual(rows);
    for (const { length } of pieces) expect([1, 4, 16, 64]).toContain(length);
  });
});

describe("a widened insert", () => {
  it("numbers the holes of every row", () => {
    const sql = 'insert into "t" ("a", "b") values ($1, $2)';
    expect(widen(sql, 1)).toBe(sql);
    expect(widen(sql, 3)).toBe('insert into "t" ("a", "b") values ($1, $2), ($3, $4), ($5, $6)');
  });

  it.each([
    'insert into "t" ("a") values ($1) on conflict do nothing',
    'insert into "t" ("a") values ($1) returning "a"',
    'update "t" set "a" = $1',
  ])("is refused for %s", (sql) => {
    expect(() => widen(sql, 2)).toThrow("not an insert of one row");
  });
});
