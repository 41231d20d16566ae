// Additive upserts: rows that add to stored rows. The jobs of one batch often add to the same ones, so they are summed
// in memory and each is written once. bench: ingest/batch
import { sql } from "kysely";
import type { Tables } from "../schema/tables.ts";
import { bulkInsert } from "./bulk-insert.ts";
import type { AdditiveUpsert, Runner } from "./tx.ts";

type Names<R> = readonly (keyof R & string)[];

/** How rows with the same key become one. The stored row keeps the columns `kept`. */
type MergeRules<R> = { keyOf: (row: R) => string; key: Names<R>; kept?: Names<R> } & Partial<
  Record<"sum" | "min" | "max", Names<R>>
>;

/** Declares how rows of a table are merged, once for the statement and for sums in memory. */
export function additiveUpsert<T extends keyof Tables>(table: T, rules: MergeRules<Tables[T]>) {
  const { keyOf, key, kept = [], sum = [], min = [], max = [] } = rules;
  const set = (names: readonly string[], merge: (stored: unknown, added: unknown) => unknown) =>
    Object.fromEntries(names.map((name) => [name, merge(sql.ref(`${table}.${name}`), sql.ref(`excluded.${name}`))]));
  const merged = {
    ...set(sum, (stored, added) => sql`${stored} + ${added}`),
    ...set(min, (stored, added) => sql`case when ${added} < ${stored} then ${added} else ${stored} end`),
    ...set(max, (stored, added) => sql`case when ${added} > ${stored} then ${added} else ${stored} end`),
  };
  const write = bulkInsert<Record<string, number>>([...key, ...kept, ...sum, ...min, ...max], (db, rows) =>
    db
      .insertInto(table as "usage_days")
      .values(rows as never[])
      .onConflict((oc) => oc.columns(key as never).doUpdateSet(merged)),
  );
  const plus = (a: Record<string, number>, b: Record<string, number>): Record<string, number> => {
    const row = { ...a };
    for (const name of sum) row[name] = (a[name] as number) + (b[name] as number);
    for (const name of min) row[name] = Math.min(a[name] as number, b[name] as number);
    for (const name of max) row[name] = Math.max(a[name] as number, b[name] as number);
    return row;
  };
  return { keyOf, plus, write } as unknown as AdditiveUpsert<Tables[T]>;
}

export class SummedRows<R> {
  readonly #upsert: AdditiveUpsert<R>;
  readonly #rows = new Map<string, R>();

  constructor(upsert: AdditiveUpsert<R>) {
    this.#upsert = upsert;
  }

  add(rows: readonly R[]): this {
    for (const row of rows) {
      const key = this.#upsert.keyOf(row);
      const before = this.#rows.get(key);
      this.#rows.set(key, before === undefined ? row : this.#upsert.plus(before, row));
    }
    return this;
  }

  /** In the order in which they were added. */
  get rows(): R[] {
    return [...this.#rows.values()];
  }

  /** Writes in key order, so that two processes with the same rows cannot deadlock. */
  write(on: Runner): Promise<void> {
    const keys = [...this.#rows.keys()].toSorted();
    return this.#upsert.write(
      on,
      keys.map((key) => this.#rows.get(key) as R),
    );
  }
}
