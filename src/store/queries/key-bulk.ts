// The keys that a bulk action applies to, oldest first. A walk examines a bounded range of the workspace's keys, or of
// one tenant's, at a time: `rangeEnd` finds where the range ends, the other queries look at what is in it.
import { sql, type Expression, type SqlBool } from "kysely";
import type { BulkAction, BulkState } from "../../kernel/bulk-actions.ts";
import type { Env } from "../../kernel/credentials.ts";
import { changeRows, countRows, selectRow, selectRows, type Builder } from "../engine/statement.ts";
import type { Dialect, Reader, Tx } from "../engine/tx.ts";
import type { ApiKeyRow } from "../schema/tables.ts";
import { isIn, notLookedUp, type ListedColumn } from "./id-lists.ts";
import { hasNoSuccessor, holdsScope, isActive, isUnexpired, isUnusedSince, notRevoked } from "./keys.ts";
import type { PageKey } from "./page.ts";

/** The longest life of a project's keys. */
type LifeMax = { id: string; ms: number };

/** What every key of the selection has. */
export type KeyFilter = {
  project_id?: string | undefined;
  env?: Env | undefined;
  scope?: string | undefined;
  prefix?: string | undefined;
  state?: BulkState | undefined;
  created_before?: number | undefined;
  created_after?: number | undefined;
  unused_since?: number | undefined;
};

export type BulkSelection = KeyFilter & {
  workspace_id: string;
  action: BulkAction;
  now: number;
  /** Only keys with smaller ids: those that existed when the run began. */
  before: string;
  /** The only projects that the caller reaches; null: all. */
  projects?: readonly string[] | null | undefined;
  ids?: readonly string[] | undefined;
  tenant_ids?: readonly string[] | undefined;
  /**
   * The only environment that the caller reaches: the walk passes no key of the other, or its cursor would name one.
   */
  confinedTo?: Env | null | undefined;
  /** For `cap_expiry`: of projects that have one, and the earliest expiry to set. */
  lives?: { max: readonly LifeMax[]; earliest: number } | undefined;
};

/** Keys after one position, up to another; to the end where that is null. */
type Range = { after: PageKey | null; upTo: PageKey | null };

export type BulkKey = Pick<
  ApiKeyRow,
  "id" | "project_id" | "tenant_id" | "env" | "display_prefix" | "name" | "expires_at"
> &
  PageKey;

/** Keys that live longer than their project allows: what `capped` gives them is earlier. */
function outlives({ max, earliest }: NonNullable<BulkSelection["lives"]>, dialect: Dialect): Expression<SqlBool> {
  const json = JSON.stringify(Object.fromEntries(max.map(({ id, ms }) => [id, ms])));
  const [ms, later] =
    dialect === "sqlite"
      ? [sql`(${json} ->> api_keys.project_id)`, sql`max`]
      : [sql`(${json}::jsonb ->> api_keys.project_id)::bigint`, sql`greatest`];
  return sql<SqlBool>`(${ms} is not null and (api_keys.expires_at is null
    or api_keys.expires_at > ${later}(api_keys.created_at + ${ms}, cast(${earliest} as bigint))))`;
}

/** The keys that a walk passes. */
type Walked = Pick<
  BulkSelection,
  "workspace_id" | "ids" | "tenant_ids" | "created_before" | "created_after" | "confinedTo"
>;

/**
 * What an index narrows: the order of creation, within the workspace, its unrevoked keys of one environment, or one
 * tenant.
 */
function inRange(db: Builder, walked: Walked, { after, upTo }: Range) {
  const { workspace_id, ids, tenant_ids = [], created_before, created_after, confinedTo } = walked;
  const [tenant_id, ...others] = tenant_ids;
  const column = (name: ListedColumn): Expression<string> => (ids ? notLookedUp(name) : sql.ref<string>(name));
  let query = db.selectFrom("api_keys").where(column("api_keys.workspace_id"), "=", workspace_id);
  if (confinedTo) query = query.where("env", "=", confinedTo).where("revoked_at", "is", null);
  else if (tenant_id !== undefined && others.length === 0)
    query = query.where(column("api_keys.tenant_id"), "=", tenant_id);
  if (created_before !== undefined) query = query.where("created_at", "<", created_before);
  if (created_after !== undefined) query = query.where("created_at", ">", created_after);
  const position = ids ? sql`(api_keys.created_at + 0, api_keys.id)` : sql`(api_keys.created_at, api_keys.id)`;
  if (after) query = query.where(sql<SqlBool>`${position} > (${after.created_at}, ${after.id})`);
  if (upTo) query = query.where(sql<SqlBool>`${position} <= (${upTo.created_at}, ${upTo.id})`);
  return query;
}

function eligible(db: Builder, dialect: Dialect, selection: BulkSelection, range: Range) {
  const { action, now, projects, ids, project_id, tenant_ids, env, scope, prefix, state, unused_since } = selection;
  const { lives = { max: [], earliest: now } } = selection;
  let query = inRange(db, selection, range).where(notRevoked).where("id", "<", selection.before);
  const [project, tenant] = [notLookedUp("api_keys.project_id"), notLookedUp("api_keys.tenant_id")];
  if (projects) query = query.where(isIn(project, projects, dialect));
  if (ids) query = query.where(isIn("api_keys.id", ids, dialect));
  if (project_id) query = query.where(project, "=", project_id);
  if (tenant_ids && (tenant_ids.length > 1 || selection.confinedTo))
    query = query.where(isIn(tenant, tenant_ids, dialect));
  if (env) query = query.where("env", "=", env);
  if (scope !== undefined) query = query.where(holdsScope(scope, dialect));
  if (prefix !== undefined)
    query = query.where(sql<SqlBool>`substr(display_prefix, 1, ${prefix.length + 1}) = ${`${prefix}_`}`);
  if (unused_since !== undefined) query = query.where(isUnusedSince(unused_since));
  if (state === "disabled" || action === "enable") query = query.where("disabled_at", "is not", null);
  if (state === "active") query = query.where(isActive(now));
  if (action === "disable" || action === "rotate") query = query.where("disabled_at", "is", null);
  if (action === "rotate") query = query.where(isUnexpired("expires_at", now));
  if (state === "expired") query = query.where("expires_at", "<=", now);
  if (state === "quarantined") query = query.where("quarantined_at", "is not", null);
  if (action === "cap_expiry") query = query.where(outlives(lives, dialect));
  return action === "rotate" ? query.where(hasNoSuccessor("api_keys", now)) : query;
}

/** The position of the last of `rows` keys after a position; undefined if there are fewer. */
export function rangeEnd(on: Reader, walked: Walked, after: PageKey | null, rows: number) {
  return selectRow(on, (db) =>
    inRange(db, walked, { after, upTo: null })
      .select(["created_at", "id"])
      .orderBy("created_at")
      .orderBy("id")
      .limit(1)
      .offset(rows - 1),
  );
}

export function eligibleKeys(on: Reader, selection: BulkSelection, range: Range, limit: number): Promise<BulkKey[]> {
  return selectRows(on, (db, dialect) =>
    eligible(db, dialect, selection, range)
      .select(["id", "created_at", "project_id", "tenant_id", "env", "display_prefix", "name", "expires_at"])
      .orderBy("created_at")
      .orderBy("id")
      .limit(limit),
  );
}

export async function countEligible(on: Reader, selection: BulkSelection, range: Range): Promise<number> {
  const counted = await selectRow(on, (db, dialect) => eligible(db, dialect, selection, range).select(countRows));
  return counted?.n ?? 0;
}

type KeysOfProject = { workspace_id: string; project_id: string; ids: readonly string[] };
export type BulkChange = Partial<
  Pick<ApiKeyRow, "revoked_at" | "revoked_reason" | "revoked_cause" | "disabled_at" | "disabled_reason" | "enabled_at">
> & { policy_version: number };

export function changeKeys(
  tx: Tx,
  { workspace_id, project_id, ids }: KeysOfProject,
  change: BulkChange,
): Promise<number> {
  return changeRows(tx, (db, dialect) =>
    db
      .updateTable("api_keys")
      .set(change)
      .where(notLookedUp("api_keys.workspace_id"), "=", workspace_id)
      .where(notLookedUp("api_keys.project_id"), "=", project_id)
      .where(isIn("api_keys.id", ids, dialect)),
  );
}

type Life = { ms: number; earliest: number; policy_version: number };

/** Each key expires at the end of the longest life, counted from its creation, but not before `earliest`. */
export function capExpiries(tx: Tx, { workspace_id, project_id, ids }: KeysOfProject, life: Life): Promise<number> {
  const { ms, earliest, policy_version } = life;
  const end = sql<number>`created_at + cast(${ms} as bigint)`;
  const floor = sql<number>`cast(${earliest} as bigint)`;
  return changeRows(tx, (db, dialect) =>
    db
      .updateTable("api_keys")
      .set({ expires_at: sql<number>`case when ${end} > ${floor} then ${end} else ${floor} end`, policy_version })
      .where(notLookedUp("api_keys.workspace_id"), "=", workspace_id)
      .where(notLookedUp("api_keys.project_id"), "=", project_id)
      .where(isIn("api_keys.id", ids, dialect)),
  );
}
