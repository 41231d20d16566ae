// Tenants. Every query is scoped to the workspace; deleted tenants are not found.
import { insertRow } from "../engine/rows.ts";
import { columns, statement } from "../engine/statement.ts";
import type { TenantRow } from "../schema/tables.ts";
import { anyById, liveById, markDeleted, pageKeyOf } from "./records.ts";

export const insertTenant = insertRow("tenants", [
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
]);

export const liveTenantById = liveById("tenants");

export const tenantPageKey = pageKeyOf("tenants");

export const updateTenant = statement<
  Omit<
    TenantRow,
    "external_id" | "created_env" | "created_at" | "deleted_at" | "suspended_at" | "suspended_reason" | "resumed_at"
  >
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
  Pick<TenantRow, "workspace_id" | "id" | "suspended_at" | "suspended_reason" | "resumed_at" | "updated_at">
>()((db, p) =>
  db
    .updateTable("tenants")
    .set(columns(p, ["suspended_at", "suspended_reason", "resumed_at", "updated_at"]))
    .where("id", "=", p.id)
    .where("workspace_id", "=", p.workspace_id),
);

export const markTenantDeleted = markDeleted("tenants");

export const anyTenantById = anyById("tenants");
