// Revokes the keys of a deleted project or tenant, in pieces. A row of `cascades` says that it has begun: key reads
// (keys.ts, policy-entries.ts) take it into account.
import { sql } from "kysely";
import { deleteBy, insertRow } from "../engine/rows.ts";
import { changeRows, countRows, selectRow, selectRows, statement, type Builder } from "../engine/statement.ts";
import type { Reader, Tx } from "../engine/tx.ts";
import type { CascadeRow } from "../schema/tables.ts";
import { notLookedUp } from "./id-lists.ts";

export const insertCascade = insertRow("cascades", ["id", "workspace_id", "cause", "reason", "revoked_at"]);

export const oldestCascade = statement<Record<string, never>>()((db) =>
  db.selectFrom("cascades").selectAll().orderBy("revoked_at").orderBy("id").limit(1),
);

export const dropCascade = deleteBy("cascades", ["id"]);

/** All keys of a project, or those of one tenant in it. */
export type KeyScope = { workspace_id: string; project_id: string; tenant_id?: string | undefined };

/** The keys of a scope that nothing had revoked by `at`, or that nothing has revoked. */
function workingKeys(db: Builder, scope: KeyScope, at?: number) {
  const query = db
    .selectFrom("api_keys")
    .where("workspace_id", "=", scope.workspace_id)
    .where("project_id", "=", scope.project_id)
    .where("revoked_at", "is", null);
  if (scope.tenant_id !== undefined) return query.where("tenant_id", "=", scope.tenant_id);
  const deleted = db.selectFrom("cascades").select("id");
  return query.where("tenant_id", "not in", at === undefined ? deleted : deleted.where("revoked_at", "<=", at));
}

/** A number of keys, and the audit row of the workspace up to which it includes changes. */
export type KeyCount = { n: number; seq: number };

/**
 * Of a million keys it takes 100 ms. Whatever was deleted is left out, whenever that was by the clock of the process
 * that deleted it.
 */
export function countWorkingKeys(on: Reader, scope: KeyScope): Promise<KeyCount | undefined> {
  return selectRow(on, (db) => {
    const head = db.selectFrom("audit_heads").select("seq").where("workspace_id", "=", scope.workspace_id);
    return workingKeys(db, scope)
      .select([countRows, head.as("seq")])
      .$castTo<KeyCount>();
  });
}

/** By how many the keys of a scope have grown in number since an audit row; negative for fewer. */
export async function growthSince(on: Reader, scope: KeyScope, seq: number): Promise<number> {
  const keys = await selectRow(on, (db) => keyGrowth(db, scope, seq));
  const ended = scope.tenant_id === undefined && (await selectRow(on, (db) => endedWithTenants(db, scope, seq)));
  return (keys?.n ?? 0) - (ended ? ended.n : 0);
}

function keyGrowth(db: Builder, { workspace_id, project_id, tenant_id }: KeyScope, seq: number) {
  const growth = sql<number>`coalesce(sum(case action when 'api_key.revoked' then -1 else 1 end), 0)`;
  const query = db
    .selectFrom("audit_log")
    .innerJoin("api_keys", "api_keys.id", "audit_log.target_id")
    .where("audit_log.workspace_id", "=", workspace_id)
    .where("audit_log.seq", ">", seq)
    .where(sql<boolean>`audit_log.action in ('api_key.created', 'api_key.rotated', 'api_key.revoked')`)
    .where("api_keys.project_id", "=", project_id)
    .select(growth.as("n"));
  return tenant_id === undefined ? query : query.where("api_keys.tenant_id", "=", tenant_id);
}

/** A tenant's deletion behind an audit row. Where there is one, `growthSince` reads all keys of the tenant. */
export const tenantDeletedSince = statement<{ workspace_id: string; seq: number }>()((db, p) =>
  db
    .selectFrom("audit_log")
    .select("seq")
    .where("workspace_id", "=", p.workspace_id)
    .where("action", "=", "tenant.deleted")
    .where("seq", ">", p.seq)
    .limit(1),
);

/** The keys of tenants that were deleted since, whether or not their rows are marked. Mostly there are none. */
function endedWithTenants(db: Builder, { workspace_id, project_id }: KeyScope, seq: number) {
  const deleted = db
    .selectFrom("audit_log")
    .select("target_id")
    .where("workspace_id", "=", workspace_id)
    .where("seq", ">", seq)
    .where("action", "=", "tenant.deleted");
  return db
    .selectFrom("api_keys")
    .where(notLookedUp("api_keys.workspace_id"), "=", workspace_id)
    .where(notLookedUp("api_keys.project_id"), "=", project_id)
    .where("tenant_id", "in", deleted)
    .where((eb) => eb.or([eb("revoked_at", "is", null), eb("revoked_cause", "=", "tenant_deleted")]))
    .select(sql<number>`coalesce(sum(1), 0)`.as("n"));
}

/** The sizes of up to `limit` rows, in the order in which `revokeWorkingKeys` takes them. */
export async function sizesOfWorkingKeys(on: Reader, scope: KeyScope, at: number, limit: number): Promise<number[]> {
  const bytes = sql<number>`octet_length(meta) + octet_length(scopes) + coalesce(octet_length(rate_limits), 0)`;
  const rows = await selectRows(on, (db) =>
    workingKeys(db, scope, at).select(bytes.as("bytes")).orderBy("tenant_id").limit(limit),
  );
  return rows.map((row) => row.bytes);
}

export type Revocation = Pick<CascadeRow, "cause" | "reason" | "revoked_at"> & {
  /** At which nodes learn of it; null if they take a new snapshot instead. */
  policy_version: number | null;
};

/** Revokes the first `limit` keys of a scope. Returns how many there were. */
export function revokeWorkingKeys(tx: Tx, scope: KeyScope, revocation: Revocation, limit: number): Promise<number> {
  const { cause, reason, revoked_at, policy_version } = revocation;
  return changeRows(tx, (db) =>
    db
      .updateTable("api_keys")
      .set({ revoked_at, revoked_reason: reason, revoked_cause: cause, ...(policy_version && { policy_version }) })
      .where("id", "in", workingKeys(db, scope, revoked_at).select("id").orderBy("tenant_id").limit(limit)),
  );
}

/** Makes the keys of a scope changes of a policy version, although their rows stay as they are. */
export function touchKeysOf(tx: Tx, scope: KeyScope, policy_version: number, at: number): Promise<number> {
  return changeRows(tx, (db) =>
    db
      .updateTable("api_keys")
      .set({ policy_version })
      .where("id", "in", workingKeys(db, scope, at).select("id")),
  );
}

/** Projects in which a tenant has keys that are not revoked; of deleted projects only if `deleted`. */
export async function projectsWithKeysOf(
  on: Reader,
  { workspace_id, tenant_id, deleted }: { workspace_id: string; tenant_id: string; deleted: boolean },
): Promise<string[]> {
  const found = await selectRows(on, (db) => {
    const projects = db
      .selectFrom("projects")
      .select("projects.id")
      .where("projects.workspace_id", "=", workspace_id)
      .where((eb) =>
        eb.exists(
          eb
            .selectFrom("api_keys")
            .select("api_keys.id")
            .where("api_keys.workspace_id", "=", workspace_id)
            .whereRef("api_keys.project_id", "=", "projects.id")
            .where("api_keys.tenant_id", "=", tenant_id)
            .where("api_keys.revoked_at", "is", null),
        ),
      )
      .orderBy("projects.id");
    return deleted ? projects : projects.where("projects.deleted_at", "is", null);
  });
  return found.map(({ id }) => id);
}
