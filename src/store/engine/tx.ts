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
  /** On SQLite the row is there when this returns. */
  first<R>(query: Query): MaybePromise<R | undefined>;
  /** The same for what many ask, where nothing can have changed it since: one of them asks for all. Not to be altered. */
  shared<R>(query: Query): MaybePromise<R | undefined>;
}

declare const txBrand: unique symbol;

/** A transaction. Only the group commit makes one, so a write outside `mutate` or `record` does not type-check. */
export interface Tx extends Reader {
  readonly [txBrand]: true;
  /** Runs a write; answers the number of rows it touched. */
  run(query: Query): Promise<number>;
  /** The same insert for several rows. */
  many(sql: string, rows: readonly Row[]): Promise<void>;
  /** An insert that nothing later in the job looks for: it may go with those of the other jobs of the batch. */
  gather(query: Query): Promise<void>;
  /** AdditiveUpsert that nothing later in the job looks for: those of the batch's jobs are put together. */
  sum<R>(sums: AdditiveUpsert<R>, rows: readonly R[]): Promise<void>;
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
