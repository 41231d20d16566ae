// Lists of API keys, newest first. No index has every filter in this order, so a list may examine any number of keys
// that it does not return: `listedRangeEnd` finds where a short range ends, and `listKeys` may be confined to it.
import { sql, type SqlBool } from "kysely";
import type { Env } from "../../kernel/credentials.ts";
import { selectRows, selectRow, type Builder } from "../engine/statement.ts";
import type { Reader } from "../engine/tx.ts";
import type { ApiKeyRow } from "../schema/tables.ts";
import { isIn, isNamed, notLookedUp } from "./id-lists.ts";
import { notRevoked, selectKeys } from "./keys.ts";
import { pageAfter, type PageKey } from "./page.ts";

export type ListFilter = {
  workspace_id: string;
  /** The only projects to list; null: all. */
  projects?: readonly string[] | null | undefined;
  ids?: readonly string[] | undefined;
  project_id?: string | undefined;
  tenant_id?: string | undefined;
  env?: Env | undefined;
  include_revoked: boolean;
  limit: number;
  after: PageKey | null;
};

/** True if an index has the filter: the list examines no key that it does not return. */
export function isIndexed({ ids, projects, project_id, tenant_id, env, include_revoked }: ListFilter): boolean {
  if (ids) return true;
  if (projects || project_id) return false;
  return tenant_id || !env ? include_revoked && !env : !include_revoked;
}

/** The keys of a tenant, or of the workspace, in the order of an index. */
function walk(db: Builder, { workspace_id, tenant_id, after }: ListFilter) {
  const keys = selectKeys(db);
  const found = tenant_id
    ? keys.where("tenant_id", "=", tenant_id).where(notLookedUp("api_keys.workspace_id"), "=", workspace_id)
    : keys.where("workspace_id", "=", workspace_id);
  return after ? found.where(pageAfter<"api_keys">(after)) : found;
}

/** Keys by their ids or projects, to be sorted. */
function find(db: Builder, on: Reader, { workspace_id, ids, tenant_id, after }: ListFilter) {
  let keys = selectKeys(db).where(notLookedUp("api_keys.workspace_id"), "=", workspace_id);
  if (ids) keys = keys.where(isNamed("api_keys", workspace_id, ids, on.dialect));
  if (tenant_id) keys = keys.where(notLookedUp("api_keys.tenant_id"), "=", tenant_id);
  return after ? keys.where(pageAfter<"api_keys">(after)) : keys;
}

/**
 * Returns one row more than the limit if there are more. `upTo`: the last position to examine. Without it, keys of
 * projects are found by their project: those of the workspace that are not listed would be far more.
 */
export function listKeys(on: Reader, filter: ListFilter, upTo: PageKey | null = null): Promise<ApiKeyRow[]> {
  return selectRows(on, (db) => listQuery(db, on, filter, upTo));
}

/** Only the ids of the same: sorting takes long with whole rows, which may be wide. */
export async function listKeyIds(on: Reader, filter: ListFilter): Promise<string[]> {
  const rows = await selectRows(on, (db) => listQuery(db, on, filter, null).clearSelect().select("id"));
  return rows.map(({ id }) => id);
}

function listQuery(db: Builder, on: Reader, filter: ListFilter, upTo: PageKey | null) {
  const { ids, projects, project_id, tenant_id } = filter;
  const byProject = !ids && !tenant_id && upTo === null;
  const project = byProject ? sql.ref<string>("api_keys.project_id") : notLookedUp("api_keys.project_id");
  let query = ids || (byProject && (projects || project_id)) ? find(db, on, filter) : walk(db, filter);
  if (projects) query = query.where(isIn(project, projects, on.dialect));
  if (project_id) query = query.where(project, "=", project_id);
  if (filter.env) query = query.where("env", "=", filter.env);
  if (!filter.include_revoked) query = query.where(notRevoked);
  if (upTo) query = query.where(sql<SqlBool>`(created_at, id) >= (${upTo.created_at}, ${upTo.id})`);
  return query
    .orderBy("created_at", "desc")
    .orderBy("id", "desc")
    .limit(filter.limit + 1);
}

/** The position of the last of `rows` keys that a list examines first; undefined if there are fewer. */
export function listedRangeEnd(on: Reader, filter: ListFilter, rows: number): Promise<PageKey | undefined> {
  return selectRow(on, (db) =>
    walk(db, filter)
      .clearSelect()
      .select(["created_at", "id"])
      .orderBy("created_at", "desc")
      .orderBy("id", "desc")
      .limit(1)
      .offset(rows - 1),
  );
}
