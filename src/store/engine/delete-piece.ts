// Deletes of old rows, at most a piece of them at a time: any number may be due, and every other writer waits for a
// piece. Run by reap() of domain/core/record.ts.
import { sql, type RawBuilder } from "kysely";
import type { Tables } from "../schema/tables.ts";
import { statement, type Params, type Statement } from "./statement.ts";

/**
 * Declares a delete of at most `limit` rows: `deletePiece<{ state: string }>()("outbox", ["id"], (p) =>
 * sql`state = ${p.state}`)`. `key` is the primary key. A row that is renewed after it was found is spared by the
 * second condition.
 */
export function deletePiece<P extends Record<string, unknown>>() {
  type Piece = P & { limit: number };
  return <T extends keyof Tables>(
    table: T,
    key: readonly (keyof Tables[T] & string)[],
    isDue: (p: Params<Piece>) => RawBuilder<unknown>,
  ): Statement<Piece, unknown> =>
    statement<Piece>()((db, p) => {
      const columns = sql.join(key.map((name) => sql.ref(name)));
      const due = isDue(p);
      const piece = sql`select ${columns} from ${sql.table(table)} where ${due} limit ${p.limit}`;
      const query = sql`delete from ${sql.table(table)} where (${columns}) in (${piece}) and ${due}`;
      return { compile: () => query.compile(db) };
    });
}

/** Declares a delete of old rows: `deleteWhere("sessions", ["id"], "expires_at", "<")` compares with `before`. */
export function deleteWhere<T extends keyof Tables>(
  table: T,
  key: readonly (keyof Tables[T] & string)[],
  column: keyof Tables[T] & string,
  operator: "<" | "<=",
): Statement<{ before: number; limit: number }, unknown> {
  const isBelow = operator === "<" ? sql`<` : sql`<=`;
  return deletePiece<{ before: number }>()(table, key, (p) => sql`${sql.ref(column)} ${isBelow} ${p.before}`);
}
