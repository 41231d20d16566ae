// SQLite's own checks of a whole database. PostgreSQL has no equivalent; constraints.ts checks its keys.
import type { Source } from "./source.ts";

/** The findings of the integrity and foreign-key checks. */
export async function checkIntegrity(source: Source): Promise<string[]> {
  if (source.kind !== "sqlite") return [];
  const integrity = await source.all<{ integrity_check: string }>("pragma integrity_check(20)", []);
  const foreign = await source.all<{ table: string }>("pragma foreign_key_check", []);
  return [
    ...integrity.map((row) => row.integrity_check.replaceAll("\n", " ")).filter((text) => text !== "ok"),
    ...foreign.map(({ table }) => `a row of ${table} references a missing row`),
  ];
}
