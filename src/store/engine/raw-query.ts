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

type ColumnTypes<R> = { [K in keyof R]?: R[K] extends number ? "bigint" : "text" };

/** Rows as a table with these columns: `select …`. */
export function tableOf<R>(dialect: Dialect, bind: Bind, rows: readonly R[], columns: ColumnTypes<R>): string {
  const names = Object.keys(columns) as (keyof R & string)[];
  const cells = names.map((name, i) =>
    dialect === "postgres" && columns[name] === "bigint"
      ? `(value ->> ${i})::bigint as ${name}`
      : `value ->> ${i} as ${name}`,
  );
  const json = bind(JSON.stringify(rows.map((row) => names.map((name) => row[name]))));
  const array = dialect === "sqlite" ? `json_each(${json})` : `json_array_elements(${json}::json)`;
  return `select ${cells.join(", ")} from ${array}`;
}

/** The values of a JSON array, for `in`. */
export function jsonList(dialect: Dialect, json: string, type: "text" | "bigint"): string {
  return dialect === "sqlite"
    ? `(select value from json_each(${json}))`
    : `(select value::${type} from json_array_elements_text(${json}::json))`;
}
