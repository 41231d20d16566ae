// The names that people know the groups of a series by.
import type { GroupBy } from "./series-rows.ts";
import type { Source } from "./source.ts";

const LABELS: Partial<Record<GroupBy, { table: string; column: string }>> = {
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
  const list =
    source.kind === "sqlite" ? "(select value from json_each($2))" : "(select json_array_elements_text($2::json))";
  const text = `select id, ${label.column} as label from ${label.table} where workspace_id = $1 and id in ${list}`;
  const rows = await source.all<{ id: string; label: string }>(text, [workspace_id, JSON.stringify(ids)]);
  return new Map(rows.map((row) => [row.id, row.label]));
}
