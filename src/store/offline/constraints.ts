// Keys that a PostgreSQL database must have. Unlike a missing row, a missing one shows only later, as a duplicate or an
// orphan. The migrations create the same ones on SQLite, so an empty database in memory says which.
import { yieldToEventLoop } from "../../platform/event-loop.ts";
import { readAppliedMigrations } from "../schema/applied.ts";
import { loadMigrations, type Migration } from "../schema/migrate.ts";
import { connectSqlite } from "../sqlite/open.ts";
import type { Source } from "./source.ts";

const SQLITE_KEYS = `
  select 'unique index ' || i.name from sqlite_schema m, pragma_index_list(m.name) i where i.origin = 'c' and i."unique"
  union all
  select 'primary key of ' || m.name from sqlite_schema m
   where m.type = 'table' and exists (select 1 from pragma_table_info(m.name) where pk > 0)
  union all
  select 'unique key of ' || m.name || ' (' || group_concat(c.name, ', ' order by c.seqno) || ')'
    from sqlite_schema m, pragma_index_list(m.name) i, pragma_index_info(i.name) c
   where m.type = 'table' and i.origin = 'u' group by m.name, i.name
  union all
  select 'foreign key of ' || m.name || ' (' || group_concat(f."from", ', ' order by f.seq) || ')'
    from sqlite_schema m, pragma_foreign_key_list(m.name) f where m.type = 'table' group by m.name, f.id`;

const POSTGRES_KEYS = `
  select 'unique index ' || c.relname as key from pg_index i join pg_class c on c.oid = i.indexrelid
   where i.indisunique and i.indisvalid and pg_table_is_visible(c.oid)
  union all
  select case k.contype when 'p' then 'primary key of ' || c.relname
    else case k.contype when 'u' then 'unique' else 'foreign' end || ' key of ' || c.relname || ' ('
      || (select string_agg(a.attname, ', ' order by n.i) from unnest(k.conkey) with ordinality n(attnum, i)
            join pg_attribute a on a.attrelid = c.oid and a.attnum = n.attnum) || ')' end
    from pg_constraint k join pg_class c on c.oid = k.conrelid
   where k.contype in ('p', 'u', 'f') and k.convalidated and pg_table_is_visible(c.oid)`;

async function expectedKeys(migrations: readonly Migration[]): Promise<string[]> {
  const db = connectSqlite(":memory:", { timeout: 0 });
  try {
    db.unsafeMode(true); // as SqliteDriver.execScript
    for (const { sql } of migrations) {
      db.exec(sql);
      await yieldToEventLoop(); // a server may be testing a backup
    }
    return db.prepare(SQLITE_KEYS).pluck().all() as string[];
  } finally {
    db.close();
  }
}

/** Nothing for a schema that this version does not know, and for SQLite, whose tables are created with their keys. */
export async function findMissingKeys(source: Source): Promise<string[]> {
  if (source.kind === "sqlite") return [];
  const count = (await readAppliedMigrations(source)).length;
  const known = loadMigrations("sqlite");
  if (count > known.length) return [];
  const wanted = await expectedKeys(known.slice(0, count));
  const found = new Set((await source.all<{ key: string }>(POSTGRES_KEYS, [])).map(({ key }) => key));
  return wanted.filter((key) => !found.has(key)).map((key) => `the ${key} is missing`);
}
