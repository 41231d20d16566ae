// The scratch database of a restore test on PostgreSQL: the configured one, else a temporary one. A configured database
// must be empty or marked as ours. Caution: any other database must never be emptied.
import { randomBytes } from "node:crypto";
import type { Client } from "pg";
import { HOUR_MS } from "../../kernel/durations.ts";
import { ExitError } from "../../kernel/exit-error.ts";
import { RESTORE_TEST_LOCK } from "./advisory-locks.ts";
import { withPostgres } from "./client.ts";

/** There is no scratch database. Says nothing about the backup. */
export class ScratchUnavailable extends ExitError {
  constructor(message: string) {
    super(message, 1);
  }
}

const PREFIX = "keyrack_restore_test_";
/** What follows the prefix: another name may be that of a configured scratch database. */
const TEMPORARY = /^(\d{13})_[0-9a-f]{12}$/;
const MARK = "keyrack restore test";
/** Marks a restored schema as one that may be dropped. */
export const SCRATCH_MARK = `comment on schema public is '${MARK}'`;

export async function withScratchDatabase<T>(
  url: string,
  configured: string | null,
  work: (url: string) => Promise<T>,
): Promise<T> {
  return configured ? inConfigured(url, configured, work) : inTemporary(url, work);
}

/** The time in the name lets a later test recognise what a killed process left behind. */
async function inTemporary<T>(url: string, work: (url: string) => Promise<T>): Promise<T> {
  const name = `${PREFIX}${Date.now()}_${randomBytes(6).toString("hex")}`;
  const create = async (client: Client): Promise<void> => {
    await dropLeftBehind(client);
    await client.query(`create database ${name} template template0`);
  };
  await withPostgres(url, create).catch((error: Error) => {
    throw new ScratchUnavailable(
      `The scratch database of the restore test could not be created (${error.message}). Set KEYRACK_RESTORE_TEST_DATABASE_URL to an empty database.`,
    );
  });
  const scratch = new URL(url);
  scratch.pathname = `/${name}`;
  try {
    // This session shows other processes that the database is in use, also between two steps of the work.
    return await withPostgres(scratch.href, () => work(scratch.href));
  } finally {
    // An error here must not hide the outcome of the work. A later test drops what is left.
    await withPostgres(url, (client) => client.query(`drop database if exists ${name} with (force)`)).catch(() => {});
  }
}

/** Drops databases of killed restore tests: each is as large as the database in use. */
async function dropLeftBehind(client: Client): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    `select d.datname as name from pg_database d join pg_roles r on r.oid = d.datdba
      where starts_with(d.datname, $1) and r.rolname = current_user
        and not exists (select 1 from pg_stat_activity a where a.datid = d.oid)`,
    [PREFIX],
  );
  for (const { name } of rows) {
    const madeAt = TEMPORARY.exec(name.slice(PREFIX.length))?.[1];
    if (!madeAt || Date.now() - Number(madeAt) < HOUR_MS) continue; // when new, its process may not have connected yet
    await client.query(`drop database if exists "${name}"`).catch(() => {}); // in use again, or dropped by another test
  }
}

async function inConfigured<T>(url: string, configured: string, work: (url: string) => Promise<T>): Promise<T> {
  const identity = "select current_database() || ' ' || pg_postmaster_start_time()::text as id";
  const identify = (at: string) =>
    withPostgres(at, async (client) => (await client.query<{ id: string }>(identity)).rows[0]?.id);
  if ((await identify(url)) === (await identify(configured)))
    throw new ScratchUnavailable(
      "KEYRACK_RESTORE_TEST_DATABASE_URL is the database in use. Set it to an empty database.",
    );
  return withPostgres(configured, async (client) => {
    const { rows } = await client.query<{ free: boolean }>("select pg_try_advisory_lock($1) as free", [
      RESTORE_TEST_LOCK,
    ]);
    if (!rows[0]?.free)
      throw new ScratchUnavailable("Another process is running a restore test in the scratch database.");
    await claim(client);
    try {
      return await work(configured);
    } finally {
      // As above: the next test drops what is left, which is marked as ours.
      const empty = (other: Client) => other.query("drop schema public cascade; create schema public");
      await withPostgres(configured, empty).catch(() => {});
    }
  });
}

async function claim(client: Client): Promise<void> {
  // Tables of any kind, views and sequences; those of extensions may be in every new database of a provider.
  const { rows } = await client.query<{ tables: string; mark: string | null }>(
    `select count(c.oid)::text as tables, obj_description(n.oid, 'pg_namespace') as mark
       from pg_namespace n left join pg_class c on c.relnamespace = n.oid and c.relkind in ('r', 'p', 'v', 'm', 'f', 'S')
        and not exists (select 1 from pg_depend d
                         where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
      where n.nspname = 'public' group by n.oid`,
  );
  if (rows[0] && rows[0].tables !== "0" && rows[0].mark !== MARK)
    throw new ScratchUnavailable(
      "KEYRACK_RESTORE_TEST_DATABASE_URL names a database that has tables, views or sequences. Set it to an empty database.",
    );
  await client.query(`drop schema if exists public cascade; create schema public; ${SCRATCH_MARK}`);
}
