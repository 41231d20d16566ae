// The text of one insert for several rows, made from that for one.
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
