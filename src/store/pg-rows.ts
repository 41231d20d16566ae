// One insert for several rows. Every number of rows is a statement of its own to the server, so only a few are used.
import type { Row } from "./statement.ts";

const SIZES = [64, 16, 4, 1];

/** The rows in their order, in pieces of a few sizes, the largest first. */
export function chunks(rows: readonly Row[]): Row[][] {
  const result: Row[][] = [];
  let at = 0;
  for (const size of SIZES) {
    for (; rows.length - at >= size; at += size) result.push(rows.slice(at, at + size));
  }
  return result;
}

const widened = new Map<string, string>();

/** `insert … values ($1, $2)` for so many rows. */
export function widen(sql: string, rows: number): string {
  if (rows === 1) return sql;
  const name = `${rows} ${sql}`;
  let text = widened.get(name);
  if (text === undefined) widened.set(name, (text = widenOnce(sql, rows)));
  return text;
}

function widenOnce(sql: string, rows: number): string {
  const [, head, tuple] = /^(insert into .* values )\(((?:\$\d+(?:, )?)+)\)$/.exec(sql) ?? [];
  if (head === undefined || tuple === undefined) throw new Error(`not an insert of one row of values: ${sql}`);
  const columns = tuple.split(", ").length;
  const tupleOf = (_: unknown, row: number): string =>
    `(${Array.from({ length: columns }, (__, i) => `$${row * columns + i + 1}`).join(", ")})`;
  return head + Array.from({ length: rows }, tupleOf).join(", ");
}
