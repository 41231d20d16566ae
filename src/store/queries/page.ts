// Keyset paging, newest first: rows after a given (created_at, id).
import { sql, type Expression, type ExpressionBuilder, type SqlBool } from "kysely";
import { selectRows } from "../engine/statement.ts";
import type { Reader } from "../engine/tx.ts";
import type { Tables } from "../schema/tables.ts";
import { isNamed } from "./id-lists.ts";

export type PageKey = { created_at: number; id: string };

/** A position in the order of an index: the value that it is ordered by, and the record's id. */
export type WalkPosition = { at: number; id: string };

type Listed = "projects" | "tenants" | "plans" | "api_keys" | "secret_keys" | "workspace_invites" | "quota_grants";

/**
 * Use as `where(pageAfter(after))` on a table with created_at and id. One row comparison, so that a page begins in the
 * index.
 */
export function pageAfter<T extends Listed & keyof Tables>({ created_at, id }: PageKey) {
  return (_eb: ExpressionBuilder<Tables, T>): Expression<SqlBool> =>
    sql<SqlBool>`(created_at, id) < (${created_at}, ${id})`;
}

/** Lists return at most this many rows and report whether there are more. */
export const LIST_MAX = 10_000;

type ListPage = {
  readonly workspace_id: string;
  readonly after: PageKey | null;
  readonly limit: number;
  /** The only ones to list. */
  readonly ids?: readonly string[] | null | undefined;
};

/** Rows that are not deleted, newest first: one more than the limit if there are more. */
export function listLive<T extends "projects" | "tenants" | "plans">(
  on: Reader,
  table: T,
  { workspace_id, after, limit, ids }: ListPage,
): Promise<Tables[T][]> {
  return selectRows(on, (db, dialect) => {
    const query = db
      .selectFrom(table as "projects")
      .selectAll()
      .where(ids ? isNamed(table, workspace_id, ids, dialect) : (eb) => eb("workspace_id", "=", workspace_id))
      .where("deleted_at", "is", null)
      .orderBy("created_at", "desc")
      .orderBy("id", "desc")
      .limit(limit + 1);
    return after ? query.where(pageAfter<"projects">(after)) : query;
  }) as Promise<Tables[T][]>;
}
