// Workspaces.
import { insertRow } from "../engine/rows.ts";
import { columns, statement } from "../engine/statement.ts";
import type { WorkspaceRow } from "../schema/tables.ts";

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

export const workspaceById = statement<{ id: string }>()((db, p) =>
  db.selectFrom("workspaces").selectAll().where("id", "=", p.id),
);

export const updateWorkspace = statement<
  Pick<WorkspaceRow, "id" | "name" | "billing_email" | "embed_origins" | "updated_at">
>()((db, p) =>
  db
    .updateTable("workspaces")
    .set(columns(p, ["name", "billing_email", "embed_origins", "updated_at"]))
    .where("id", "=", p.id),
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
