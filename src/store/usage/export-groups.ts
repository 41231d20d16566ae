// Walks the groups of a usage export by tenant, project and key, a page at a time, so that an export holds only some
// lines of a bucket.
import type { Env } from "../../kernel/credentials.ts";
import { LAST_ID } from "../../kernel/ids.ts";
import { ABOVE_CAP } from "../../kernel/usage/groups.ts";
import { jsonList } from "../engine/raw-query.ts";
import type { Group, GroupFilter } from "./series-rows.ts";
import type { Source } from "../offline/source.ts";

export type GroupPosition = { tenant: string; project_id: string; name: string };
/** One environment: its groups differ in tenant, project or name. */
export type ExportGroups = GroupFilter & { env: Env };
type GroupPage = { groups: Group[]; next: GroupPosition | null };

const PAGE_GROUPS = 2_000;

/** After what belongs to no tenant. */
export const FIRST_GROUP: GroupPosition = { tenant: "", project_id: LAST_ID, name: "" };

/** Requests without a key, and those of keys above the cap of an hour. */
export const hasNoKey = (name: string): boolean => name === "" || name === ABOVE_CAP;

export async function readGroupPage(
  source: Source,
  workspace_id: string,
  { kind, env, tenant, projects }: ExportGroups,
  after: GroupPosition,
): Promise<GroupPage> {
  const values: (string | number)[] = [];
  const param = (value: string | number): string => `$${values.push(value)}`;
  const conditions = [`workspace_id = ${param(workspace_id)}`, `kind = ${param(kind)}`, `env = ${param(env)}`];
  const position = [after.tenant, after.project_id, after.name].map(param);
  conditions.push(`(tenant, project_id, name) > (${position.join(", ")})`);
  if (tenant !== undefined) conditions.push(`tenant = ${param(tenant)}`);
  if (projects) conditions.push(`project_id in ${jsonList(source.kind, param(JSON.stringify(projects)), "text")}`);
  const groups = await source.all<Group>(
    `select id, kind, project_id, env, tenant, name from usage_groups where ${conditions.join(" and ")}
      order by tenant, project_id, name limit ${PAGE_GROUPS}`,
    values,
  );
  if (groups.length < PAGE_GROUPS) return { groups, next: null };
  // A tenant's two groups without a key are one line, and must not be parted by the end of a page.
  if (groups.at(-1)?.name === "") groups.pop();
  const { tenant: lastTenant, project_id, name } = groups.at(-1) as Group;
  return { groups, next: { tenant: lastTenant, project_id, name } };
}
