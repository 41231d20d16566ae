// Inserts of many rows with few statements.
import type { Compilable } from "kysely";
import { statement, type Builder } from "./statement.ts";
import type { Dialect, Runner } from "./tx.ts";

const ROWS_MAX = 64;

/** So many rows in pieces of a few sizes, for each is a statement of its own: 64 rows, 32, 16 … 1. */
export function pieces(rows: number): { from: number; to: number }[] {
  const result: { from: number; to: number }[] = [];
  for (let from = 0, size = ROWS_MAX; from < rows; from += size) {
    while (size > rows - from) size /= 2;
    result.push({ from, to: from + size });
  }
  return result;
}

type Cells = Record<string, string | number>;

/**
 * Runs `insert … values (…), (…)` for any number of rows out of a few prepared statements. The values are laid out by
 * hand, row after row in the order of `names`: named holes would cost more than the insert.
 */
export function insertMany<R extends Cells>(
  names: readonly (keyof R & string)[],
  build: (db: Builder, rows: R[]) => Compilable,
) {
  const blank = Object.fromEntries(names.map((name) => [name, 0])) as R;
  const texts = new Map<string, string>();
  const sqlOf = (dialect: Dialect, size: number): string => {
    const key = `${dialect} ${size}`;
    const known = texts.get(key);
    if (known !== undefined) return known;
    const rows = Array.from({ length: size }, () => blank);
    const sql = statement<Cells>()((db) => build(db, rows)).sql(dialect);
    texts.set(key, sql);
    return sql;
  };
  return async (on: Runner, rows: readonly R[]): Promise<void> => {
    for (const { from, to } of pieces(rows.length)) {
      const values: (string | number)[] = [];
      for (let i = from; i < to; i++) for (const name of names) values.push((rows[i] as R)[name] as string | number);
      await on.run({ sql: sqlOf(on.dialect, to - from), values });
    }
  };
}
