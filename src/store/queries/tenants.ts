// Tenants. Every query is scoped to the workspace; deleted tenants are not found.
import { insertRow, rowBy, updateRow } from "../engine/rows.ts";
import { liveById, markDeleted, pageKeyOf } from "./records.ts";

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

export const updateTenant = updateRow(
  "tenants",
  ["id", "workspace_id"],
  ["name", "meta", "embed_epoch", "updated_at", "plan_id", "rate_limits", "allowed_cidrs", "ip_mode", "quotas"],
);

export const switchTenant = updateRow(
  "tenants",
  ["id", "workspace_id"],
  ["suspended_at", "suspended_reason", "resumed_at", "updated_at"],
);

export const markTenantDeleted = markDeleted("tenants");

/** A deleted one too. */
export const anyTenantById = rowBy("tenants", ["workspace_id", "id"]);
