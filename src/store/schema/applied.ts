// The migrations that a database has, read without a server.
import type { Source } from "../offline/source.ts";

export type Applied = { version: number; name: string; checksum: string };

export const SELECT_APPLIED = "select version, name, checksum from schema_migrations order by version";

export function readAppliedMigrations(source: Source): Promise<Applied[]> {
  return source.all<Applied>(SELECT_APPLIED, []);
}
