// Multi-row inserts built from a few prepared statements. bench: ingest/batch, vendor/mint-postgres
import type { Compilable } from "kysely";
import { LoopShare } from "../../platform/event-loop.ts";
import { statement, type Builder } from "./statement.ts";
import type { Dialect, Runner } from "./tx.ts";

const ROWS_MAX = 64;

/** Splits rows into chunks of 64, 32, 16 … 1: each chunk size is a statement of its own, so there are only seven. */
export function chunkRows(rows: number): { from: number; to: number }[] {
  const chunks: { from: number; to: number }[] = [];
  for (let from = 0, size = ROWS_MAX; from < rows; from += size) {
    while (size > rows - from) size /= 2;
    chunks.push({ from, to: from + size });
  }
  return chunks;
}

type Cells = Record<string, string | number | null>;

/**
 * Returns a function that runs `insert … values (…), (…)` for any number of rows. Values are bound by position, row
 * after row in the order of `names`: binding them by name costs more than the insert.
 */
export function bulkInsert<R extends Cells>(
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
    const loop = new LoopShare(); // SQLite holds the event loop while it writes
    for (const { from, to } of chunkRows(rows.length)) {
      const values: Cells[string][] = [];
      for (let i = from; i < to; i++) for (const name of names) values.push((rows[i] as R)[name] as Cells[string]);
      await on.run({ sql: sqlOf(on.dialect, to - from), values });
      await loop.yieldIfDue();
    }
  };
}
