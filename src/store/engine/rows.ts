// Statements about rows with a key: insert, update, read, delete. Kysely's types cannot follow a table that is an
// argument, so each function states what its callers pass and get, and is written for any table.
import type { Kysely } from "kysely";
import type { Tables } from "../schema/tables.ts";
import { columns, statement, type Builder, type Statement } from "./statement.ts";
import type { Value } from "./tx.ts";

type Table = keyof Tables;
type Column<T extends Table> = keyof Tables[T] & string;
type Cells = Record<string, Value>;

const ofAnyTable = (db: Builder) => db as unknown as Kysely<Record<string, Cells>>;

/** `insertRow("embed_origins", ["origin", "workspace_id"])` */
export function insertRow<T extends Table, C extends Column<T>>(
  table: T,
  names: readonly C[],
): Statement<Pick<Tables[T], C>, unknown>;
export function insertRow(table: string, names: readonly string[]): Statement<never, unknown> {
  return statement<Cells>()((db, p) => ofAnyTable(db).insertInto(table).values(columns(p, names)));
}

/** `updateRow("tenants", ["id", "workspace_id"], ["name", "meta"])`: sets these columns of the row with this key. */
export function updateRow<T extends Table, K extends Column<T>, C extends Column<T>>(
  table: T,
  key: readonly K[],
  names: readonly C[],
): Statement<Pick<Tables[T], K | C>, unknown>;
export function updateRow(table: string, key: readonly string[], names: readonly string[]): Statement<never, unknown> {
  return statement<Cells>()((db, p) => {
    const update = ofAnyTable(db).updateTable(table).set(columns(p, names));
    return key.reduce((query, name) => query.where(name, "=", p[name]!), update);
  });
}

/** `deleteBy("embed_origins", ["workspace_id"])`: deletes the rows with this key. */
export function deleteBy<T extends Table, K extends Column<T>>(
  table: T,
  key: readonly K[],
): Statement<Pick<Tables[T], K>, unknown>;
export function deleteBy(table: string, key: readonly string[]): Statement<never, unknown> {
  return statement<Cells>()((db, p) =>
    key.reduce((query, name) => query.where(name, "=", p[name]!), ofAnyTable(db).deleteFrom(table)),
  );
}

/**
 * `rowBy("users", ["id"])`: the row with this key. Locked, it is held until the transaction ends; SQLite has one
 * writer, so its transaction holds every row already.
 */
export function rowBy<T extends Table, K extends Column<T>>(
  table: T,
  key: readonly K[],
  lock?: "for update",
): Statement<Pick<Tables[T], K>, Tables[T]>;
export function rowBy(table: string, key: readonly string[], lock?: "for update"): Statement<never, unknown> {
  return statement<Cells>()((db, p, dialect) => {
    const rows = ofAnyTable(db).selectFrom(table).selectAll();
    const row = key.reduce((query, name) => query.where(name, "=", p[name]!), rows);
    return lock && dialect === "postgres" ? row.forUpdate() : row;
  });
}

/**
 * `upsertRow("unregistered_nodes", ["project_id", "scope"], ["nodes", "last_seen_at"])`: inserts a row, or sets the
 * latter columns of the one with this key; without any, a row that is there stays. `kept`: columns that are only
 * inserted.
 */
export function upsertRow<T extends Table, C extends Column<T>>(
  table: T,
  key: readonly C[],
  names: readonly C[],
  kept?: readonly C[],
): Statement<Pick<Tables[T], C>, unknown>;
export function upsertRow(
  table: string,
  key: readonly string[],
  names: readonly string[],
  kept: readonly string[] = [],
): Statement<never, unknown> {
  return statement<Cells>()((db, p) =>
    ofAnyTable(db)
      .insertInto(table)
      .values(columns(p, [...key, ...names, ...kept]))
      .onConflict((oc) => {
        const own = oc.columns(key);
        if (names.length === 0) return own.doNothing();
        return own.doUpdateSet((eb) => Object.fromEntries(names.map((name) => [name, eb.ref(`excluded.${name}`)])));
      }),
  );
}
