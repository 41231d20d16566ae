// Statements about one row: insert it, update it, read it by its key. The table and the columns are arguments, which
// kysely's types cannot follow, so the signatures state what callers pass and get.
import type { Kysely } from "kysely";
import type { Tables } from "../schema/tables.ts";
import { columns, statement, type Builder, type Statement } from "./statement.ts";
import type { Value } from "./tx.ts";

type Cells = Record<string, Value>;
type Column<T extends keyof Tables> = keyof Tables[T] & string;

const anyTable = (db: Builder) => db as unknown as Kysely<Record<string, Cells>>;

/** `insertRow("embed_origins", ["origin", "workspace_id"])` */
export function insertRow<T extends keyof Tables, C extends Column<T>>(
  table: T,
  names: readonly C[],
): Statement<Pick<Tables[T], C>, unknown> {
  const built = statement<Cells>()((db, p) => anyTable(db).insertInto(table).values(columns<Cells, C>(p, names)));
  return built as Statement<never, unknown>;
}
