// Statements that every record of a workspace has, for the tables whose rows are marked as deleted.
import { countRows, statement, type Statement } from "../engine/statement.ts";
import type { Tables } from "../schema/tables.ts";

type Recorded = "projects" | "tenants" | "plans";
type Id = { workspace_id: string; id: string };

/** One that is not deleted. */
export function liveById<T extends Recorded>(table: T): Statement<Id, Tables[T]> {
  return statement<Id>()((db, p) =>
    db
      .selectFrom(table as "projects")
      .selectAll()
      .where("id", "=", p.id)
      .where("workspace_id", "=", p.workspace_id)
      .where("deleted_at", "is", null),
  ) as Statement<Id, unknown> as Statement<Id, Tables[T]>;
}

/** The paging key of a row. Includes deleted rows, so that a client can continue after one. */
export const pageKeyOf = (table: Recorded) =>
  statement<Id>()((db, p) =>
    db
      .selectFrom(table as "projects")
      .select(["id", "created_at"])
      .where("id", "=", p.id)
      .where("workspace_id", "=", p.workspace_id),
  );

export const countLive = (table: Recorded) =>
  statement<{ workspace_id: string }>()((db, p) =>
    db
      .selectFrom(table as "projects")
      .select(countRows)
      .where("workspace_id", "=", p.workspace_id)
      .where("deleted_at", "is", null),
  );

export const markDeleted = (table: Recorded) =>
  statement<Id & { now: number }>()((db, p) =>
    db
      .updateTable(table as "projects")
      .set({ deleted_at: p.now, updated_at: p.now })
      .where("id", "=", p.id)
      .where("workspace_id", "=", p.workspace_id),
  );
