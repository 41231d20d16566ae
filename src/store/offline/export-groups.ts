// Walks the groups of a usage export in the order of their index, a page at a time, so that an export holds only some lines
// of a bucket. Groups without a key come first, by tenant: several of them are one line.
import { idList, type Group, type GroupFilter } from "./series-rows.ts";
import type { Source } from "./source.ts";

export type GroupPosition = { name: string | null; tenant: string; project_id: string };
type GroupPage = { groups: Group[]; next: GroupPosition | null };

const PAGE_GROUPS = 2_000;
/** Greater than every id. */
const LAST = "~";
/** Of requests without a key, and of keys above the cap of an hour. */
const NAMES_WITHOUT_KEY = ["", "*"];
const FIRST_KEY: GroupPosition = { name: "*", tenant: LAST, project_id: LAST };

/** Without what belongs to no tenant. */
export const FIRST_GROUP: GroupPosition = { name: null, tenant: "", project_id: LAST };

export async function readGroupPage(
  source: Source,
  workspace_id: string,
  filter: GroupFilter,
  after: GroupPosition,
): Promise<GroupPage> {
  if (after.name !== null) {
    const groups = await groupsAfter(source, workspace_id, filter, after);
    const last = groups[PAGE_GROUPS - 1];
    return { groups: groups.filter(({ tenant }) => tenant !== ""), next: last ? positionOf(last) : null };
  }
  const lists: Group[][] = [];
  for (const name of NAMES_WITHOUT_KEY) lists.push(await groupsAfter(source, workspace_id, { ...filter, name }, after));
  // What is behind the end of a full list is left for the next page, with its namesakes.
  const ends = lists.flatMap((list) => list.slice(PAGE_GROUPS - 1)).toSorted(byTenant);
  const [end] = ends;
  const groups = lists.flat().filter((group) => !end || byTenant(group, end) <= 0);
  if (end) return { groups, next: { ...positionOf(end), name: null } };
  return { groups, next: filter.kind === "key" ? FIRST_KEY : null };
}

const positionOf = ({ name, tenant, project_id }: Group): GroupPosition => ({ name, tenant, project_id });

function byTenant(a: Group, b: Group): number {
  if (a.tenant !== b.tenant) return a.tenant < b.tenant ? -1 : 1;
  if (a.project_id === b.project_id) return 0;
  return a.project_id < b.project_id ? -1 : 1;
}

function groupsAfter(
  source: Source,
  workspace_id: string,
  { kind, name, env, tenant, projects }: GroupFilter,
  after: GroupPosition,
): Promise<Group[]> {
  const values: (string | number)[] = [];
  const param = (value: string | number): string => `$${values.push(value)}`;
  const order = name === undefined ? "name, tenant, project_id" : "tenant, project_id";
  const conditions = [`workspace_id = ${param(workspace_id)}`, `kind = ${param(kind)}`];
  if (name !== undefined) conditions.push(`name = ${param(name)}`);
  const position = [...(name === undefined ? [after.name ?? ""] : []), after.tenant, after.project_id];
  conditions.push(`(${order}) > (${position.map(param).join(", ")})`);
  if (env !== null) conditions.push(`env = ${param(env)}`);
  if (tenant !== undefined) conditions.push(`tenant = ${param(tenant)}`);
  if (projects) conditions.push(`project_id in ${idList(source, param(JSON.stringify(projects)), "text")}`);
  return source.all<Group>(
    `select id, kind, project_id, env, tenant, name from usage_groups where ${conditions.join(" and ")}
      order by ${order} limit ${PAGE_GROUPS}`,
    values,
  );
}
