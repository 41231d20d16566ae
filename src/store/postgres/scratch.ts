// A PostgreSQL database to try a backup in: the one the settings name, else one made for the moment. A named one must be
// empty or ours: a database that only looks like a scratch one must never be emptied.
import { randomBytes } from "node:crypto";
import type { Client } from "pg";
import { connected } from "./client.ts";

/** No place to try a backup in; says nothing about the backup. */
export class NoScratch extends Error {
  readonly exitCode = 1;
  readonly scratch = true;
}

const LOCK = 1_263_682_381;
const MARK = "keyrack restore test";
/** Makes a restored schema known as one that may be dropped again. */
export const SCRATCH_MARK = `comment on schema public is '${MARK}'`;

export async function withScratchDatabase<T>(
  url: string,
  named: string | null,
  work: (url: string) => Promise<T>,
): Promise<T> {
  return named ? inNamed(url, named, work) : inMade(url, work);
}

async function inMade<T>(url: string, work: (url: string) => Promise<T>): Promise<T> {
  const name = `keyrack_restore_test_${randomBytes(6).toString("hex")}`;
  await connected(url, (client) => client.query(`create database ${name} template template0`)).catch((error: Error) => {
    throw new NoScratch(
      `No scratch database can be made for the restore test (${error.message}). Set KEYRACK_RESTORE_TEST_DATABASE_URL to an empty one.`,
    );
  });
  const scratch = new URL(url);
  scratch.pathname = `/${name}`;
  try {
    return await work(scratch.href);
  } finally {
    await connected(url, (client) => client.query(`drop database if exists ${name} with (force)`));
  }
}

async function inNamed<T>(url: string, named: string, work: (url: string) => Promise<T>): Promise<T> {
  const who = "select current_database() || ' ' || pg_postmaster_start_time()::text as place";
  const placeOf = (at: string) =>
    connected(at, async (client) => (await client.query<{ place: string }>(who)).rows[0]?.place);
  if ((await placeOf(url)) === (await placeOf(named)))
    throw new NoScratch("KEYRACK_RESTORE_TEST_DATABASE_URL is the database in use. Name an empty one.");
  return connected(named, async (client) => {
    const { rows } = await client.query<{ free: boolean }>("select pg_try_advisory_lock($1) as free", [LOCK]);
    if (!rows[0]?.free) throw new NoScratch("Another process is trying a backup in the scratch database.");
    await claim(client);
    try {
      return await work(named);
    } finally {
      await connected(named, (other) => other.query("drop schema public cascade; create schema public"));
    }
  });
}

async function claim(client: Client): Promise<void> {
  const { rows } = await client.query<{ tables: string; mark: string | null }>(
    `select count(c.oid)::text as tables, obj_description(n.oid, 'pg_namespace') as mark
       from pg_namespace n left join pg_class c on c.relnamespace = n.oid and c.relkind = 'r'
      where n.nspname = 'public' group by n.oid`,
  );
  if (rows[0] && rows[0].tables !== "0" && rows[0].mark !== MARK)
    throw new NoScratch("KEYRACK_RESTORE_TEST_DATABASE_URL names a database with tables in it. Name an empty one.");
  await client.query(`drop schema if exists public cascade; create schema public; ${SCRATCH_MARK}`);
}
