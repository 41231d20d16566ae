// Moves every row of one database into another of either dialect, table by table, parents before children, in one
// transaction: cut short, the other side holds nothing. There are no sequences to move: every id is made by us.
// Both sides are read for an order-free digest of all values, so "equal" means each value of each row.
import { hash as digest } from "node:crypto";
import { listTables } from "./contents.ts";
import type { OnProgress } from "../progress.ts";
import type { CopySource, CopySink, Row } from "./copy-ends.ts";
import type { Source } from "./source.ts";

const LANES = 4;
const HISTORY = "schema_migrations"; // the other side writes its own: it has run the migrations

export type TableChecksum = { rows: number; digest: string };
export type TableChecksums = Record<string, TableChecksum>;

/** Foreign keys, as (child, parent). */
async function foreignKeys(source: Source): Promise<[string, string][]> {
  const rows = await source.all<{ child: string; parent: string }>(
    source.kind === "sqlite"
      ? `select m.name as child, f."table" as parent from sqlite_schema m, pragma_foreign_key_list(m.name) f where m.type = 'table'`
      : `select conrelid::regclass::text as child, confrelid::regclass::text as parent from pg_constraint
          where contype = 'f' and connamespace = current_schema()::regnamespace`,
    [],
  );
  return rows.map(({ child, parent }) => [child, parent]);
}

/** Every table to copy, those others point to first. */
export async function copyOrder(source: Source): Promise<string[]> {
  const tables = (await listTables(source)).filter((name) => name !== HISTORY);
  const links = await foreignKeys(source);
  const order: string[] = [];
  while (order.length < tables.length) {
    const waits = (name: string): boolean =>
      links.some(([child, parent]) => child === name && parent !== name && !order.includes(parent));
    const next = tables.filter((name) => !order.includes(name) && !waits(name));
    if (next.length === 0) throw new Error("tables point at each other in a circle");
    order.push(...next);
  }
  return order;
}

function spell(value: Row[number]): string {
  if (value === null) return "null";
  return value instanceof Uint8Array ? `x${Buffer.from(value).toString("hex")}` : JSON.stringify(value);
}

/** A sum over rows in any order: two databases sort differently. */
class Sum {
  rows = 0;
  readonly #lanes = new BigUint64Array(LANES);

  add(columns: readonly string[], row: Row): void {
    // Columns by name: a table that was altered has them in another order.
    const text = columns
      .map((name, i) => `${name}=${spell(row[i] ?? null)}`)
      .toSorted()
      .join("\n");
    const lanes = new BigUint64Array(new Uint8Array(digest("sha256", text, "buffer")).buffer);
    for (let i = 0; i < LANES; i++) this.#lanes[i] = (this.#lanes[i] ?? 0n) + (lanes[i] ?? 0n);
    this.rows++;
  }

  get value(): TableChecksum {
    return { rows: this.rows, digest: Buffer.from(this.#lanes.buffer).toString("hex") };
  }
}

type Taken = (table: string, columns: string[], rows: Row[]) => Promise<void>;

async function readAll(from: CopySource, step: string, tell: OnProgress, take: Taken): Promise<TableChecksums> {
  const sums: TableChecksums = {};
  const order = await copyOrder(from.source);
  let total = 0;
  for (const table of order) total += await from.count(table);
  let done = 0;
  for (const table of order) {
    const sum = new Sum();
    for await (const { columns, rows } of from.pages(table)) {
      for (const row of rows) sum.add(columns, row);
      await take(table, columns, rows);
      tell({ step, done: (done += rows.length), total });
    }
    sums[table] = sum.value;
  }
  return sums;
}

/** Copies every row; answers what was read. The sink's transaction is the caller's to end. */
export function copyRows(from: CopySource, to: CopySink, tell: OnProgress): Promise<TableChecksums> {
  return readAll(from, "rows copied", tell, (table, columns, rows) => to.insert(table, columns, rows));
}

export function checksumRows(from: CopySource, tell: OnProgress): Promise<TableChecksums> {
  return readAll(from, "rows compared", tell, async () => {});
}

/** Where two databases differ, in words. */
export function checksumDifferences(from: TableChecksums, to: TableChecksums): string[] {
  return [...new Set([...Object.keys(from), ...Object.keys(to)])].flatMap((name) => {
    const [a, b] = [from[name], to[name]];
    if (a?.rows !== b?.rows) return [`${name}: ${a?.rows ?? 0} rows here, ${b?.rows ?? 0} there`];
    return a?.digest === b?.digest ? [] : [`${name}: the rows differ`];
  });
}
