// Sets SQLite pragmas and verifies that each took effect.
import type { Connection } from "./open.ts";

/** For every connection to a database. */
export const COMMON_PRAGMAS = [
  "foreign_keys=ON",
  "trusted_schema=OFF",
  "cell_size_check=ON",
  "temp_store=MEMORY",
  "mmap_size=0",
];

const KEYWORDS: Record<string, number> = { ON: 1, OFF: 0, NORMAL: 1, FULL: 2, FAST: 2, MEMORY: 2, INCREMENTAL: 2 };

/** Sets pragmas and reads each back: SQLite ignores an unknown or impossible one silently. */
export function setPragmas(db: Connection, pragmas: readonly string[]): void {
  for (const pragma of pragmas) {
    const [name = "", value = ""] = pragma.split("=");
    db.pragma(pragma);
    assertPragma(db, name, name === "journal_mode" ? value.toLowerCase() : (KEYWORDS[value] ?? Number(value)));
  }
}

export function assertPragma(db: Connection, name: string, want: string | number): void {
  if (name === "mmap_size" && db.memory) return; // which has none
  const got = db.pragma(name, { simple: true });
  if (got !== want) throw new Error(`SQLite ignored ${name}=${want}: it is ${String(got)}`);
}
