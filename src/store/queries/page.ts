// Keyset paging, newest first: rows behind the row named `after`, by (created_at, id).
import type { Expression, ExpressionBuilder, SqlBool } from "kysely";
import { compileQuery, type Reader } from "../engine/statement.ts";
import type { Tables } from "../schema/tables.ts";

export type PageKey = { created_at: number; id: string };

type Listed = "projects" | "tenants" | "api_keys" | "secret_keys" | "workspace_invites" | "users" | "outbox";

/** `where(pageAfter(after))` on a table that has created_at and id. */
export function pageAfter<T extends Listed & keyof Tables>(after: PageKey) {
  return (eb: ExpressionBuilder<Tables, T>): Expression<SqlBool> => {
    const any = eb as unknown as ExpressionBuilder<Tables, "projects">;
    return any.or([
      any("created_at", "<", after.created_at),
      any.and([any("created_at", "=", after.created_at), any("id", "<", after.id)]),
    ]);
  };
}

/** Lists without paging answer at most this many rows, then say that there are more (decision 24). */
export const LIST_MAX = 10_000;

/** What is not deleted, newest first; one row more than the cap, so that the caller sees whether there are more. */
export function listLive<R>(
  on: Reader,
  table: "projects" | "tenants",
  workspace_id: string,
  after: PageKey | null,
): Promise<R[]> {
  return on.all<R>(
    compileQuery(on, (db) => {
      const query = db
        .selectFrom(table as "projects")
        .selectAll()
        .where("workspace_id", "=", workspace_id)
        .where("deleted_at", "is", null)
        .orderBy("created_at", "desc")
        .orderBy("id", "desc")
        .limit(LIST_MAX + 1);
      return after ? query.where(pageAfter<"projects">(after)) : query;
    }),
  );
}
