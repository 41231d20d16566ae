// Tenants. Every query is scoped to the workspace; deleted tenants are not found.
import { listLive, type PageKey } from "./page.ts";
import { columns, statement, type Reader } from "../engine/statement.ts";
import type { TenantRow } from "../schema/tables.ts";

export const insertTenant = statement<TenantRow>()((db, p) =>
  db
    .insertInto("tenants")
    .values(
      columns(p, [
        "id",
        "workspace_id",
        "external_id",
        "name",
        "meta",
        "embed_epoch",
        "created_env",
        "created_at",
        "updated_at",
        "deleted_at",
        "suspended_at",
        "suspended_reason",
        "plan_id",
        "rate_limits",
        "allowed_cidrs",
        "ip_mode",
        "quotas",
      ]),
    ),
);

export const liveTenantById = statement<{ workspace_id: string; id: string }>()((db, p) =>
  db
    .selectFrom("tenants")
    .selectAll()
    .where("id", "=", p.id)
    .where("workspace_id", "=", p.workspace_id)
    .where("deleted_at", "is", null),
);

/** The paging key of a row. Includes deleted rows, so that a client can continue after one. */
export const tenantPageKey = statement<{ workspace_id: string; id: string }>()((db, p) =>
  db
    .selectFrom("tenants")
    .select(["id", "created_at"])
    .where("id", "=", p.id)
    .where("workspace_id", "=", p.workspace_id),
);

export const updateTenant = statement<
  Omit<TenantRow, "external_id" | "created_env" | "created_at" | "deleted_at" | "suspended_at" | "suspended_reason">
>()((db, p) =>
  db
    .updateTable("tenants")
    .set(
      columns(p, [
        "name",
        "meta",
        "embed_epoch",
        "updated_at",
        "plan_id",
        "rate_limits",
        "allowed_cidrs",
        "ip_mode",
        "quotas",
      ]),
    )
    .where("id", "=", p.id)
    .where("workspace_id", "=", p.workspace_id),
);

export const switchTenant = statement<
  Pick<TenantRow, "workspace_id" | "id" | "suspended_at" | "suspended_reason" | "updated_at">
>()((db, p) =>
  db
    .updateTable("tenants")
    .set(columns(p, ["suspended_at", "suspended_reason", "updated_at"]))
    .where("id", "=", p.id)
    .where("workspace_id", "=", p.workspace_id),
);

export const markTenantDeleted = statement<{ workspace_id: string; id: string; now: number }>()((db, p) =>
  db
    .updateTable("tenants")
    .set({ deleted_at: p.now, updated_at: p.now })
    .where("id", "=", p.id)
    .where("workspace_id", "=", p.workspace_id),
);

export function listTenants(
  on: Reader,
  workspace_id: string,
  after: PageKey | null,
  limit: number,
  ids: readonly string[] | null = null,
): Promise<TenantRow[]> {
  return listLive<TenantRow>(on, "tenants", workspace_id, after, limit, ids);
}

/** A deleted one too. */
export const anyTenantById = statement<{ workspace_id: string; id: string }>()((db, p) =>
  db.selectFrom("tenants").selectAll().where("workspace_id", "=", p.workspace_id).where("id", "=", p.id),
);
