// Turns the text of a one-row insert into one for several rows. bench: vendor/mint-postgres
const texts = new Map<string, string>();

/** `insert … values ($1, $2)` as `insert … values ($1, $2), ($3, $4) …`. */
export function toMultiRow(sql: string, rows: number): string {
  if (rows === 1) return sql;
  const key = `${rows} ${sql}`;
  let text = texts.get(key);
  if (text === undefined) texts.set(key, (text = buildMultiRow(sql, rows)));
  return text;
}

function buildMultiRow(sql: string, rows: number): string {
  const [, head, tuple, rest] =
    /^(insert into .* values )\(((?:\$\d+(?:, )?)+)\)( on conflict [^$]*)?$/.exec(sql) ?? [];
  if (head === undefined || tuple === undefined) throw new Error(`not a one-row insert: ${sql}`);
  const columns = tuple.split(", ").length;
  const tupleOf = (_: unknown, row: number): string =>
    `(${Array.from({ length: columns }, (__, i) => `$${row * columns + i + 1}`).join(", ")})`;
  return head + Array.from({ length: rows }, tupleOf).join(", ") + (rest ?? "");
}
