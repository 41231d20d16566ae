// Rows that a list names. Each is found by its id: without statistics SQLite prefers an index of the workspace, and
// reads all of its rows for a few.
import { sql, type Expression, type SqlBool } from "kysely";
import type { Dialect } from "../engine/tx.ts";
import type { Tables } from "../schema/tables.ts";

export type ListedColumn = `${keyof Tables}.${string}`;

/**
 * A column that is compared but not looked up: named rows, or a range of another index, are fewer than it would find.
 */
export function notLookedUp(column: ListedColumn): Expression<string> {
  return sql<string>`coalesce(${sql.ref(column)}, '')`;
}

/**
 * A list as one parameter: the text of the statement must not depend on its length, because every text becomes a
 * prepared statement of each connection.
 */
export function isIn(
  column: ListedColumn | Expression<string>,
  list: readonly string[],
  dialect: Dialect,
): Expression<SqlBool> {
  return isInJson(column, JSON.stringify(list), dialect);
}

/** The same with a list that is JSON already. */
export function isInJson(
  column: ListedColumn | Expression<string>,
  json: string,
  dialect: Dialect,
): Expression<SqlBool> {
  const compared = typeof column === "string" ? sql.ref(column) : column;
  return dialect === "sqlite"
    ? sql<SqlBool>`${compared} in (select value from json_each(${json}))`
    : sql<SqlBool>`${compared} = any(array(select jsonb_array_elements_text(${json}::jsonb)))`;
}

/** The same with numbers. */
export function isInNumbers(column: ListedColumn, json: string, dialect: Dialect): Expression<SqlBool> {
  return dialect === "sqlite"
    ? isInJson(column, json, dialect)
    : sql<SqlBool>`${sql.ref(column)} = any(array(select jsonb_array_elements_text(${json}::jsonb)::bigint))`;
}

/** The rows of a workspace that the list names. */
export function isNamed(
  table: "projects" | "tenants" | "plans" | "api_keys" | "secret_keys",
  workspace_id: string,
  ids: readonly string[],
  dialect: Dialect,
): Expression<SqlBool> {
  return sql<SqlBool>`${notLookedUp(`${table}.workspace_id`)} = ${workspace_id} and ${isIn(`${table}.id`, ids, dialect)}`;
}
