// The PostgreSQL database that `db copy` writes to. Its schema is marked until the copy is verified: servers refuse a
// marked database, and the next copy starts over.
import { withPostgres } from "./client.ts";

export const UNFINISHED_COPY = "keyrack copy unfinished";

/** unfinished: an interrupted copy of ours. */
export function copyTargetState(url: string): Promise<"empty" | "unfinished" | "in use"> {
  return withPostgres(url, async (client) => {
    const { rows: marks } = await client.query<{ mark: string | null }>(
      "select obj_description(current_schema()::regnamespace, 'pg_namespace') as mark",
    );
    if (marks[0]?.mark === UNFINISHED_COPY) return "unfinished";
    const { rows: tables } = await client.query<{ name: string }>(
      "select quote_ident(relname) as name from pg_class where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p', 'v', 'm')",
    );
    for (const { name } of tables) {
      if (name === "schema_migrations") continue;
      const { rows } = await client.query(`select 1 from ${name} limit 1`);
      if (rows.length > 0) return "in use";
    }
    return tables.some(({ name }) => name === "schema_migrations") || tables.length === 0 ? "empty" : "in use";
  });
}

/** Drops the schema of an unfinished copy. Caution: the only place of the copy that could destroy data. */
export async function dropUnfinished(url: string): Promise<void> {
  if ((await copyTargetState(url)) !== "unfinished") return;
  await withPostgres(url, (client) => client.query("drop schema public cascade; create schema public"));
}

export async function markUnfinished(url: string): Promise<void> {
  await withPostgres(url, (client) => client.query(`comment on schema public is '${UNFINISHED_COPY}'`));
}

export async function clearUnfinished(url: string): Promise<void> {
  await withPostgres(url, (client) => client.query("comment on schema public is null"));
}
