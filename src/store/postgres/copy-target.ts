// A PostgreSQL database that a copy goes into. Its schema carries a mark until the copy is verified: a marked one is no
// deployment, servers refuse it, and the next copy begins anew.
import { connected } from "./client.ts";

export const UNFINISHED = "keyrack copy unfinished";

/** empty: no rows of anybody. unfinished: a copy of ours that was cut short. */
export function sinkState(url: string): Promise<"empty" | "unfinished" | "in use"> {
  return connected(url, async (client) => {
    const { rows: marks } = await client.query<{ mark: string | null }>(
      "select obj_description(current_schema()::regnamespace, 'pg_namespace') as mark",
    );
    if (marks[0]?.mark === UNFINISHED) return "unfinished";
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

/** Drops what a copy put there, and only that: this is the one place that could destroy data. */
export async function dropUnfinished(url: string): Promise<void> {
  if ((await sinkState(url)) !== "unfinished") return;
  await connected(url, (client) => client.query("drop schema public cascade; create schema public"));
}

export async function markUnfinished(url: string): Promise<void> {
  await connected(url, (client) => client.query(`comment on schema public is '${UNFINISHED}'`));
}

export async function clearUnfinished(url: string): Promise<void> {
  await connected(url, (client) => client.query("comment on schema public is null"));
}
