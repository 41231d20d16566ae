// The names that people know the groups of a series by.
import { jsonList } from "../engine/raw-query.ts";
import type { GroupBy } from "./series-rows.ts";
import type { Source } from "../offline/source.ts";

const LABELS: Partial<Record<GroupBy, Named>> = {
  project: { table: "projects", column: "slug" },
  tenant: { table: "tenants", column: "external_id" },
  key: { table: "api_keys", column: "display_prefix" },
};

export async function labelsOf(
  source: Source,
  workspace_id: string,
  group_by: GroupBy,
  ids: readonly string[],
): Promise<Map<string, string>> {
  const label = LABELS[group_by];
  if (!label || ids.length === 0) return new Map();
  return namesOf(source, workspace_id, label, ids);
}

export type Named = { table: "projects" | "tenants" | "api_keys"; column: string };

/**
 * A column of records by their ids; the workspace is compared, not looked up, or SQLite would read all of its records.
 */
export async function namesOf(
  source: Source,
  workspace_id: string,
  { table, column }: Named,
  ids: readonly string[],
): Promise<Map<string, string>> {
  const list = jsonList(source.kind, "$2", "text");
  const text = `select id, ${column} as name from ${table} where coalesce(workspace_id, '') = $1 and id in ${list}`;
  const rows = await source.all<{ id: string; name: string }>(text, [workspace_id, JSON.stringify([...new Set(ids)])]);
  return new Map(rows.map(({ id, name }) => [id, name]));
}
