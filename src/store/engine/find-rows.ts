// Reads rows by lists of keys, with a few prepared statements.
import { chunkRows } from "./bulk-insert.ts";
import type { Dialect, Reader, Value } from "./tx.ts";

/** `(a, b) in (values (…), …)`, in a few sizes so that few statements are prepared. PostgreSQL needs the types. */
function rowsIn(columns: readonly string[], type: "text" | "bigint", size: number, dialect: Dialect): string {
  let n = 0;
  const param = (): string => (dialect === "sqlite" ? "?" : `$${++n}::${type}`);
  const tuples = Array.from({ length: size }, () => `(${columns.map(param).join(", ")})`);
  return `(${columns.join(", ")}) in (values ${tuples.join(", ")})`;
}

/** Rows whose columns are one of `keys`. */
export async function findRows<R>(
  on: Reader,
  select: string,
  { columns, type, keys }: { columns: readonly string[]; type: "text" | "bigint"; keys: readonly Value[][] },
): Promise<R[]> {
  const found: R[] = [];
  for (const { from, to } of chunkRows(keys.length)) {
    const text = `${select} where ${rowsIn(columns, type, to - from, on.dialect)}`;
    found.push(...(await on.all<R>({ sql: text, values: keys.slice(from, to).flat() })));
  }
  return found;
}
