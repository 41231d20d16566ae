// Every statement that changes or deletes a workspace's rows filters by the workspace, even if the id alone would
// do: a mistake in one lookup must not affect another workspace's data.
import { readdirSync } from "node:fs";
import { describe, expect, it } from "vitest";
import type { Statement } from "../../src/store/engine/statement.ts";

const OWNED = ["api_keys", "secret_keys", "projects", "tenants", "workspace_invites", "memberships", "embed_origins"];
const queries = new URL("../../src/store/queries/", import.meta.url);

type Named = { name: string; sql: string };

async function statements(): Promise<Named[]> {
  const found: Named[] = [];
  for (const file of readdirSync(queries)) {
    const module = (await import(new URL(file, queries).href)) as Record<string, Partial<Statement<never, never>>>;
    for (const [name, value] of Object.entries(module)) {
      if (typeof value?.sql !== "function" || typeof value.first !== "function") continue;
      for (const dialect of ["sqlite", "postgres"] as const) found.push({ name, sql: value.sql(dialect) });
    }
  }
  return found;
}

describe("the store's statements", () => {
  it("filter by the workspace wherever they change or delete its rows", async () => {
    const all = await statements();
    const ofWorkspaces = all.filter(({ name }) => name !== "endAllInvites"); // a restore replaces every workspace
    const changes = ofWorkspaces.filter(({ sql }) =>
      OWNED.some((table) => sql.startsWith(`update "${table}"`) || sql.startsWith(`delete from "${table}"`)),
    );
    expect(changes.length).toBeGreaterThan(20);
    const open = changes.filter(({ sql }) => !/where[\s\S]*"workspace_id" = /.test(sql));
    expect(open.map(({ name }) => name)).toEqual([]);
  });
});
