// Workspaces.
import { insertRow, rowBy, updateRow } from "../engine/rows.ts";
import { statement } from "../engine/statement.ts";

export const insertWorkspace = insertRow("workspaces", [
  "id",
  "name",
  "slug",
  "billing_email",
  "embed_origins",
  "tenant_count",
  "test_tenant_count",
  "created_at",
  "updated_at",
  "created_by",
]);

export const workspaceById = rowBy("workspaces", ["id"]);

export const updateWorkspace = updateRow(
  "workspaces",
  ["id"],
  ["name", "billing_email", "embed_origins", "updated_at"],
);

type TenantCount = "tenant_count" | "test_tenant_count";

/** Counts one more tenant. Changes no row if there are `max` already. */
const reserveIn = (count: TenantCount) =>
  statement<{ id: string; max: number }>()((db, p) =>
    db
      .updateTable("workspaces")
      .set((eb) => ({ [count]: eb(count, "+", 1) }))
      .where("id", "=", p.id)
      .where(count, "<", p.max),
  );

const releaseIn = (count: TenantCount) =>
  statement<{ id: string }>()((db, p) =>
    db
      .updateTable("workspaces")
      .set((eb) => ({ [count]: eb(count, "-", 1) }))
      .where("id", "=", p.id),
  );

export const reserveTenantSlot = reserveIn("tenant_count");
export const reserveTestTenantSlot = reserveIn("test_tenant_count");
export const releaseTenantSlot = releaseIn("tenant_count");
export const releaseTestTenantSlot = releaseIn("test_tenant_count");
