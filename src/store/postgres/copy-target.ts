// The PostgreSQL database that `db copy` writes to. Its schema is marked from before the first table is created until
// the copy is verified: servers refuse a marked database, and the next copy starts over.
import type { Client } from "pg";
import { MIGRATION_LOCK } from "./advisory-locks.ts";
import { withPostgres } from "./client.ts";
import { checkServerSettings, SELECT_SERVER_SETTINGS, type ServerSetting } from "./server-settings.ts";
import { ToolRefused } from "./tools.ts";

export const UNFINISHED_COPY = "keyrack copy unfinished";

type Target = { schema: string | null; role: string; database: string; owns: boolean; mark: string | null };

/** To mark the schema, and to drop it after a failure, the role must own it and be allowed to create it again. */
const READ_TARGET = `select current_schema()::text as schema, quote_ident(current_user) as role,
    quote_ident(current_database()) as database, obj_description(n.oid, 'pg_namespace') as mark,
    coalesce(pg_has_role(n.nspowner, 'USAGE'), false) and has_database_privilege(current_database(), 'CREATE') as owns
  from (values (1)) one left join pg_namespace n on n.nspname = 'public'`;

/**
 * Refuses a database that a copy could not mark or drop, that holds anything but an unfinished copy, or on which a
 * server would not start.
 */
export function assertCopyTarget(url: string, name: string): Promise<void> {
  return withPostgres(url, async (client) => {
    const { schema, role, database, owns, mark } = await readTarget(client);
    if (schema !== "public")
      throw new ToolRefused(
        `Tables would be created in ${schema ? `the schema ${schema}` : "no schema"}, and a copy supports only public. Run as a superuser: alter role ${role} in database ${database} set search_path to public`,
      );
    if (!owns)
      throw new ToolRefused(
        `The role ${role} does not own the database ${name}. Run as a superuser: alter database ${database} owner to ${role}; alter schema public owner to ${role}`,
      );
    await assertVacant(client, mark, name);
    checkServerSettings((await client.query<ServerSetting>(SELECT_SERVER_SETTINGS)).rows);
  });
}

async function assertVacant(client: Client, mark: string | null, name: string): Promise<void> {
  if (mark !== UNFINISHED_COPY && !(await isEmpty(client)))
    throw new ToolRefused(`The database ${name} is not empty. Name an empty one.`);
}

async function readTarget(client: Client): Promise<Target> {
  const [target] = (await client.query<Target>(READ_TARGET)).rows;
  if (!target) throw new Error("no row of the copy's target");
  return target;
}

/** Tables without rows are empty if they are ours. */
async function isEmpty(client: Client): Promise<boolean> {
  const { rows: tables } = await client.query<{ name: string }>(
    "select quote_ident(relname) as name from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v', 'm')",
  );
  for (const { name } of tables) {
    if (name === "schema_migrations") continue;
    const { rows } = await client.query(`select 1 from public.${name} limit 1`);
    if (rows.length > 0) return false;
  }
  return tables.some(({ name }) => name === "schema_migrations") || tables.length === 0;
}

/**
 * Marks the database, in the same transaction in which the tables of an unfinished copy are dropped. Servers create
 * their tables under the same lock: one that started while the source was inspected is found here.
 */
export async function startCopy(url: string, name: string): Promise<void> {
  await withPostgres(url, async (client) => {
    await client.query(`begin; select pg_advisory_xact_lock(${MIGRATION_LOCK})`);
    const { mark } = await readTarget(client);
    await assertVacant(client, mark, name);
    await client.query(`${dropSql(mark)}; comment on schema public is '${UNFINISHED_COPY}'; commit`);
  });
}

/** Removes the mark of a verified copy. */
export async function finishCopy(url: string): Promise<void> {
  await withPostgres(url, (client) => client.query("comment on schema public is null"));
}

/** Drops an unfinished copy. */
export async function dropCopy(url: string): Promise<void> {
  await withPostgres(url, async (client) => client.query(dropSql((await readTarget(client)).mark)));
}

/** Caution: the only place of the copy that could destroy data. */
function dropSql(mark: string | null): string {
  return mark === UNFINISHED_COPY ? "drop schema public cascade; create schema public" : "";
}
