// SQL that kysely cannot build: lists and tables of values as one parameter, so that a statement stays prepared for any
// number of them, and the JSON of the policy feed. Offline readers use it too, so it loads no kysely.
import type { Dialect, Query, Value } from "./tx.ts";

/** The place of a value in the text. */
export type Bind = (value: Value) => string;

/** Builds a query. Call `bind` in the order of the text: SQLite's parameters are not numbered. */
export function rawQuery(dialect: Dialect, text: (bind: Bind) => string): Query {
  const values: Value[] = [];
  const sql = text((value) => {
    const place = values.push(value);
    return dialect === "sqlite" ? "?" : `$${place}`;
  });
  return { sql, values };
}

/** The values of a JSON array, for `in`. */
export function jsonList(dialect: Dialect, json: string, type: "text" | "bigint"): string {
  return dialect === "sqlite"
    ? `(select value from json_each(${json}))`
    : `(select value::${type} from json_array_elements_text(${json}::json))`;
}
