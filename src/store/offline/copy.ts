// Copies every row of one database into another of either dialect: table by table, parents before children, in one
// transaction, so an interrupted copy leaves nothing. There are no sequences to copy: Keyrack generates every id.
// The comparison is an order-independent checksum over every value of every row.
import { hash as digest } from "node:crypto";
import { listTables } from "./contents.ts";
import type { OnProgress } from "../progress.ts";
import type { CopySink } from "./copy-sink.ts";
import type { CopySource, Row } from "./copy-source.ts";
import type { Source } from "./source.ts";

const LANES = 4;
/**
 * The target has its own history: it ran the migrations itself. A setup link is for the server that printed it. A mark
 * says that the rows of a chain were verified where they were: their copies are verified again. What was written today
 * was written to another disk.
 */
const NOT_COPIED = ["schema_migrations", "setup_tokens", "audit_marks", "written_bytes", "mail_counts"];

type TableChecksum = { rows: number; digest: string };
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

/** Every table to copy, referenced tables first. */
export async function copyOrder(source: Source): Promise<string[]> {
  const tables = (await listTables(source)).filter((name) => !NOT_COPIED.includes(name));
  const links = await foreignKeys(source);
  const order: string[] = [];
  while (order.length < tables.length) {
    const isBlocked = (name: string): boolean =>
      links.some(([child, parent]) => child === name && parent !== name && !order.includes(parent));
    const next = tables.filter((name) => !order.includes(name) && !isBlocked(name));
    if (next.length === 0) throw new Error("foreign keys form a cycle");
    order.push(...next);
  }
  return order;
}

function serialize(value: Row[number]): string {
  if (value === null) return "null";
  return value instanceof Uint8Array ? `x${Buffer.from(value).toString("hex")}` : JSON.stringify(value);
}

/** Adds up row hashes, so that the order does not matter: two databases sort differently. */
class ChecksumBuilder {
  rows = 0;
  readonly #lanes = new BigUint64Array(LANES);

  add(columns: readonly string[], row: Row): void {
    // Sorted by column name: an altered table has its columns in another order.
    const text = columns
      .map((name, i) => `${name}=${serialize(row[i] ?? null)}`)
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

type TakePage = (table: string, columns: string[], rows: Row[]) => Promise<void>;

async function readAll(
  from: CopySource,
  step: string,
  onProgress: OnProgress,
  take: TakePage,
): Promise<TableChecksums> {
  const checksums: TableChecksums = {};
  const order = await copyOrder(from.source);
  let total = 0;
  for (const table of order) total += await from.count(table);
  let done = 0;
  for (const table of order) {
    const checksum = new ChecksumBuilder();
    for await (const { columns, rows } of from.pages(table)) {
      for (const row of rows) checksum.add(columns, row);
      await take(table, columns, rows);
      onProgress({ step, done: (done += rows.length), total });
    }
    checksums[table] = checksum.value;
  }
  return checksums;
}

/** Copies every row and returns the source's checksums. The caller ends the sink's transaction. */
export function copyRows(from: CopySource, to: CopySink, onProgress: OnProgress): Promise<TableChecksums> {
  return readAll(from, "rows copied", onProgress, (table, columns, rows) => to.insert(table, columns, rows));
}

export function checksumRows(from: CopySource, onProgress: OnProgress): Promise<TableChecksums> {
  return readAll(from, "rows compared", onProgress, async () => {});
}

/** Describes where two databases differ. */
export function checksumDifferences(from: TableChecksums, to: TableChecksums): string[] {
  return [...new Set([...Object.keys(from), ...Object.keys(to)])].flatMap((name) => {
    const [a, b] = [from[name], to[name]];
    if (a?.rows !== b?.rows) return [`${name}: ${a?.rows ?? 0} rows in the source, ${b?.rows ?? 0} in the copy`];
    return a?.digest === b?.digest ? [] : [`${name}: the rows differ`];
  });
}
