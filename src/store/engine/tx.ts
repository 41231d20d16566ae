// What a statement runs on: a read-only connection (Reader) or a transaction (Tx). Types only.
export type Dialect = "sqlite" | "postgres";
export type Value = string | number | null | Uint8Array;

/** The values of one execution, in the order of the statement's parameters. */
export type Row = readonly Value[];

/** A compiled statement with its values bound. */
export type Query = { readonly sql: string; readonly values: Row };

export interface Reader {
  readonly dialect: Dialect;
  all<R>(query: Query): Promise<R[]>;
  first<R>(query: Query): Promise<R | undefined>;
  /** Memoized within the transaction; on SQLite's reader also synchronous, so it may throw. Do not modify the row. */
  firstMemoized<R>(query: Query): R | undefined | Promise<R | undefined>;
  /**
   * As `all`, but stops at the row with which they have `chars` characters. Absent where rows arrive over the network,
   * and so in many turns of the event loop.
   */
  allWithin?<R>(query: Query, chars: number): Promise<Piece<R>>;
}

/** `isCut`: there may be more rows. */
export type Piece<R> = { rows: R[]; isCut: boolean };

declare const txBrand: unique symbol;

/** A transaction. Only the group commit creates one, so a write outside `mutate` or `record` does not type-check. */
export interface Tx extends Reader {
  readonly [txBrand]: true;
  /** Runs a write; returns the number of rows it changed. */
  run(query: Query): Promise<number>;
  /** Runs one insert for several rows. */
  insertMany(sql: string, rows: readonly Row[]): Promise<void>;
  /** Deferred insert: not visible to later reads in this job. The batch writes the rows of all its jobs together. */
  insertDeferred(query: Query): Promise<void>;
  /** Additive upsert, deferred like `insertDeferred`: the batch sums the rows of all its jobs, then writes them. */
  upsertAdditive<R>(upsert: AdditiveUpsert<R>, rows: readonly R[]): Promise<void>;
  /**
   * A number that the jobs of a batch share: each sees what those before it have added to `n`. Outside a batch it is
   * read.
   */
  tally(name: string, read: () => Promise<number>): Promise<Tally>;
  /** Returns the project's next policy version. The project row is updated once, after the segment's jobs. */
  bump(project_id: string, options?: BumpOptions): Promise<number>;
}

export type Tally = { n: number };

/**
 * `forgetDeltas`: nodes take a new snapshot. `uses`: capabilities of the policy feed that the project needs from now
 * on.
 */
export type BumpOptions = { forgetDeltas?: boolean; uses?: number };

/** The part of a transaction that deferred writes get. */
export type Runner = Pick<Tx, "dialect" | "run">;

export type AdditiveUpsert<R> = {
  /** The row's primary key as text. */
  keyOf(row: R): string;
  /** Returns the sum as a new row. Must not modify either argument: a failed batch runs again, job by job. */
  plus(a: R, b: R): R;
  write(on: Runner, rows: readonly R[]): Promise<void>;
};
