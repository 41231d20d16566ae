// What a statement runs on: the read-only connection or a transaction. Types only.
import type { MaybePromise } from "../../kernel/maybe-promise.ts";

export type Dialect = "sqlite" | "postgres";
export type Value = string | number | null | Uint8Array;

/** The values of one execution, in the order of the statement's holes. */
export type Row = readonly Value[];

/** A compiled statement with its values filled in. */
export type Query = { readonly sql: string; readonly values: Row };

/** What the read door and a transaction both can do. */
export interface Reader {
  readonly dialect: Dialect;
  all<R>(query: Query): Promise<R[]>;
  first<R>(query: Query): Promise<R | undefined>;
  /** Memoized within the transaction, and synchronous on SQLite's reader. Callers must not modify the row. */
  firstMemoized<R>(query: Query): MaybePromise<R | undefined>;
}

declare const txBrand: unique symbol;

/** A transaction. Only the group commit makes one, so a write outside `mutate` or `record` does not type-check. */
export interface Tx extends Reader {
  readonly [txBrand]: true;
  /** Runs a write; answers the number of rows it touched. */
  run(query: Query): Promise<number>;
  /** Runs one insert for several rows. */
  insertMany(sql: string, rows: readonly Row[]): Promise<void>;
  /** Deferred insert: not visible to later reads in this job; written with those of the batch's other jobs. */
  insertDeferred(query: Query): Promise<void>;
  /** Additive upsert, deferred like `insertDeferred`: rows of the batch's jobs are summed before they are written. */
  upsertAdditive<R>(upsert: AdditiveUpsert<R>, rows: readonly R[]): Promise<void>;
  /** The project's next policy version; the project row itself is updated once, when the group seals. */
  bump(project_id: string, options?: { forgetDeltas?: boolean }): Promise<number>;
}

/** As much of a transaction as an insert needs. */
export type Runner = Pick<Tx, "dialect" | "run">;

export type AdditiveUpsert<R> = {
  /** Tells rows apart as the primary key does. */
  keyOf(row: R): string;
  /** Both together. Neither is changed: a batch that fails is run again, job by job. */
  plus(a: R, b: R): R;
  write(on: Runner, rows: readonly R[]): Promise<void>;
};
