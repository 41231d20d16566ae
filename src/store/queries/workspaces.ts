// Workspaces.
import { columns, statement } from "../engine/statement.ts";
import type { WorkspaceRow } from "../schema/tables.ts";

export const insertWorkspace = statement<WorkspaceRow>()((db, p) =>
  db
    .insertInto("workspaces")
    .values(
      columns(p, [
        "id",
        "name",
        "slug",
        "billing_email",
        "embed_origins",
        "tenant_count",
        "created_at",
        "updated_at",
        "created_by",
      ]),
    ),
);

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

/** Counts one more tenant. Changes no row if the workspace has `max` already. */
export const reserveTenantSlot = statement<{ id: string; max: number }>()((db, p) =>
  db
    .updateTable("workspaces")
    .set((eb) => ({ tenant_count: eb("tenant_count", "+", 1) }))
    .where("id", "=", p.id)
    .where("tenant_count", "<", p.max),
);

export const releaseTenantSlot = statement<{ id: string }>()((db, p) =>
  db
    .updateTable("workspaces")
    .set((eb) => ({ tenant_count: eb("tenant_count", "-", 1) }))
    .where("id", "=", p.id),
);
