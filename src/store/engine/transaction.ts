// The transaction as one job sees it. It closes with the job: a statement that a failed job sends later is rejected,
// because it would run outside the job's savepoint and be committed with the other jobs.
import { SummedRows } from "./additive-upsert.ts";
import type { Driver } from "./driver.ts";
import type { PolicyVersions, Undo } from "./policy-versions.ts";
import { QueryMemo } from "./query-memo.ts";
import type { AdditiveUpsert, BumpOptions, Query, Row, Tally, Tx } from "./tx.ts";

/** State that the jobs of one batch share. None of them writes what another reads. bench: vendor/mint, ingest/batch */
export class Batch {
  readonly memo = new QueryMemo();
  readonly #tallies = new Map<string, Promise<Tally>>();
  readonly #inserts = new Map<string, Row[]>();
  readonly #upserts = new Map<unknown, SummedRows<unknown>>();

  tally(name: string, read: () => Promise<number>): Promise<Tally> {
    let tally = this.#tallies.get(name);
    if (!tally) this.#tallies.set(name, (tally = readTally(read)));
    return tally;
  }

  insertDeferred({ sql, values }: Query): void {
    const rows = this.#inserts.get(sql);
    if (rows) rows.push(values);
    else this.#inserts.set(sql, [values]);
  }

  upsertAdditive<R>(upsert: AdditiveUpsert<R>, rows: readonly R[]): void {
    const summed = (this.#upserts.get(upsert) as SummedRows<R> | undefined) ?? new SummedRows(upsert);
    this.#upserts.set(upsert, summed.add(rows));
  }

  /** Writes the deferred rows, tables in the order of their first insert. */
  async flush({ dialect, writer }: Driver): Promise<void> {
    await Promise.all([...this.#inserts].map(([sql, rows]) => writer.insertMany(sql, rows)));
    const runner = { dialect, run: (query: Query): Promise<number> => writer.run(query) };
    // One table after the other: interleaved chunks of two tables could deadlock two processes.
    for (const summed of this.#upserts.values()) await summed.write(runner);
    this.#inserts.clear();
    this.#upserts.clear();
  }
}

const readTally = async (read: () => Promise<number>): Promise<Tally> => ({ n: await read() });

/** Approximate size of a row without its texts. */
export const ROW_BYTES = 200;

function bytesOf(row: Row): number {
  let bytes = ROW_BYTES;
  for (const value of row) if (typeof value === "string" || value instanceof Uint8Array) bytes += value.length;
  return bytes;
}

export class JobTransaction {
  readonly dialect;
  wrote = false;
  /** Approximate bytes written by its statements. */
  bytes = 0;
  readonly undo: Undo[] = [];
  readonly #driver: Driver;
  readonly #versions: PolicyVersions;
  readonly #batch: Batch | undefined;
  #closed = false;

  constructor(driver: Driver, versions: PolicyVersions, batch?: Batch) {
    this.#driver = driver;
    this.#versions = versions;
    this.#batch = batch;
    this.dialect = driver.dialect;
  }

  /** The brand exists only in the type. This is the only cast to it. */
  get branded(): Tx {
    return this as unknown as Tx;
  }

  all<R>(query: Query): Promise<R[]> {
    if (this.#closed) return rejectClosed();
    // Anything but a plain select may write, for example through a returning clause.
    if (!query.sql.startsWith("select")) this.#count(query.values);
    return this.#driver.writer.all<R>(query);
  }

  first<R>(query: Query): Promise<R | undefined> {
    if (this.#closed) return rejectClosed();
    if (!query.sql.startsWith("select")) this.#count(query.values);
    return this.#driver.writer.first<R>(query);
  }

  firstMemoized<R>(query: Query): Promise<R | undefined> {
    if (this.#closed) return rejectClosed();
    const run = (): Promise<R | undefined> => this.#driver.writer.first<R>(query);
    return this.#batch ? this.#batch.memo.getOrRun(query, run) : run();
  }

  run(query: Query): Promise<number> {
    if (this.#closed) return rejectClosed();
    this.#count(query.values);
    return this.#driver.writer.run(query);
  }

  insertMany(sql: string, rows: readonly Row[]): Promise<void> {
    if (this.#closed) return rejectClosed();
    for (const row of rows) this.#count(row);
    return this.#driver.writer.insertMany(sql, rows);
  }

  /** Outside a batch the row is written at once, so that the job itself gets the error. */
  async insertDeferred(query: Query): Promise<void> {
    if (this.#closed) return rejectClosed();
    this.#count(query.values);
    if (this.#batch) this.#batch.insertDeferred(query);
    else await this.#driver.writer.run(query);
  }

  async upsertAdditive<R>(upsert: AdditiveUpsert<R>, rows: readonly R[]): Promise<void> {
    if (this.#closed) return rejectClosed();
    this.wrote = true;
    this.bytes += ROW_BYTES * rows.length;
    if (this.#batch) this.#batch.upsertAdditive(upsert, rows);
    else await new SummedRows(upsert).add(rows).write(this.branded);
  }

  tally(name: string, read: () => Promise<number>): Promise<Tally> {
    if (this.#closed) return rejectClosed();
    return this.#batch ? this.#batch.tally(name, read) : readTally(read);
  }

  bump(project_id: string, options: BumpOptions = {}): Promise<number> {
    if (this.#closed) return rejectClosed();
    this.wrote = true;
    return this.#versions.bump(this.branded, project_id, options, this.undo);
  }

  close(): void {
    this.#closed = true;
  }

  #count(row: Row): void {
    this.wrote = true;
    this.bytes += bytesOf(row);
  }
}

function rejectClosed(): Promise<never> {
  return Promise.reject(new Error("the job has ended: its transaction accepts no more statements"));
}
