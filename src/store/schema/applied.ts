// The migrations that a database has, read without a server.
import type { Source } from "../offline/source.ts";

export type Applied = { version: number; name: string; checksum: string };

export const SELECT_APPLIED = "select version, name, checksum from schema_migrations order by version";

export function readAppliedMigrations(source: Source): Promise<Applied[]> {
  return source.all<Applied>(SELECT_APPLIED, []);
}

/** False for an empty database of PostgreSQL. A SQLite file is looked at before it is opened. */
export async function hasSchema(source: Source): Promise<boolean> {
  if (source.kind === "sqlite") return true;
  const [row] = await source.all<{ found: boolean }>(
    "select to_regclass('schema_migrations') is not null as found",
    [],
  );
  return row?.found === true;
}
