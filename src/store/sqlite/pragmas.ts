// SQLite's settings of a connection, set and read back.
import type { Connection } from "./open.ts";

/** What every connection of ours to a database is set to. */
export const COMMON = [
  "foreign_keys=ON",
  "trusted_schema=OFF",
  "cell_size_check=ON",
  "temp_store=MEMORY",
  "mmap_size=0",
];

const WORDS: Record<string, number> = { ON: 1, OFF: 0, NORMAL: 1, FAST: 2, MEMORY: 2, INCREMENTAL: 2 };

/** Sets pragmas and reads each back: one that silently did not take would break a promise. */
export function setPragmas(db: Connection, pragmas: readonly string[]): void {
  for (const pragma of pragmas) {
    const [name = "", value = ""] = pragma.split("=");
    db.pragma(pragma);
    assertPragma(db, name, name === "journal_mode" ? value.toLowerCase() : (WORDS[value] ?? Number(value)));
  }
}

export function assertPragma(db: Connection, name: string, want: string | number): void {
  const got = db.pragma(name, { simple: true });
  if (got !== want) throw new Error(`SQLite refused ${name}=${want} (it is ${String(got)})`);
}
