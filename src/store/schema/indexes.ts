// The indexes that migrations declare with `create index concurrently`. PostgreSQL builds them outside the migration's
// transaction, while other processes write.
import { INDEX_LOCK } from "../postgres/advisory-locks.ts";

export const CONCURRENT_INDEX: RegExp = /^create index concurrently (\w+) [^;]+;$/gm;
const DROPPED_INDEX = /^drop index if exists (\w+);$/gm;
const VALID_INDEXES = `select relname as name from pg_class join pg_index on indexrelid = pg_class.oid
  where indisvalid and pg_table_is_visible(pg_class.oid)`;

/** A PostgreSQL connection outside a transaction. */
type Session = { all<R>(sql: string): Promise<R[]>; exec(sql: string): Promise<unknown> };

type Index = { name: string; sql: string };
type Declaring = { version: number; sql: string };

/**
 * Builds the indexes that are missing or whose build was interrupted, and returns their names. One process at a time;
 * the others do not wait: the leader looks again later (server/jobs.ts).
 */
export async function buildIndexes(session: Session, migrations: readonly Declaring[]): Promise<string[]> {
  if ((await findMissing(session, migrations)).length === 0) return [];
  const [lock] = await session.all<{ taken: boolean }>(`select pg_try_advisory_lock(${INDEX_LOCK}) as taken`);
  if (!lock?.taken) return [];
  try {
    await session.exec("set statement_timeout = 0; set lock_timeout = 0");
    const missing = await findMissing(session, migrations); // again: another process may have just built them
    for (const { name, sql } of missing) {
      await session.exec(`drop index concurrently if exists ${name}`);
      await session.exec(sql);
    }
    return missing.map(({ name }) => name);
  } finally {
    await session.exec(`reset statement_timeout; reset lock_timeout; select pg_advisory_unlock(${INDEX_LOCK})`);
  }
}

/** None if a newer version has migrated the database: it may have dropped what this one declares. */
export async function findMissing(session: Pick<Session, "all">, migrations: readonly Declaring[]): Promise<Index[]> {
  const [newest] = await session.all<{ version: number }>("select max(version) as version from schema_migrations");
  if (newest?.version !== migrations.at(-1)?.version) return [];
  const valid = new Set((await session.all<{ name: string }>(VALID_INDEXES)).map(({ name }) => name));
  const dropped = new Set(migrations.flatMap(({ sql }) => [...sql.matchAll(DROPPED_INDEX)].map(([, name]) => name)));
  const declared = migrations.flatMap(({ sql }) => [...sql.matchAll(CONCURRENT_INDEX)]);
  return declared
    .map(([sql, name = ""]) => ({ name, sql }))
    .filter(({ name }) => !valid.has(name) && !dropped.has(name));
}
