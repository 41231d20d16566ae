// The transaction as one job sees it. It ends with the job: what a failed job still sends afterwards is refused, or it
// would land outside the job's savepoint and be committed with the others.
import { QueryMemo } from "./query-memo.ts";
import type { Driver } from "./driver.ts";
import type { Query, Row, Tx } from "./statement.ts";
import { Summed } from "./additive-upsert.ts";
import type { AdditiveUpsert } from "./tx.ts";
import type { Undo, PolicyVersions } from "./policy-versions.ts";

/** What the jobs of one batch have in common. None of them changes what another reads. */
export class Batch {
  readonly asked = new QueryMemo();
  readonly #inserts = new Map<string, Row[]>();
  readonly #sums = new Map<unknown, Summed<unknown>>();

  insertDeferred({ sql, values }: Query): void {
    const rows = this.#inserts.get(sql);
    if (rows) rows.push(values);
    else this.#inserts.set(sql, [values]);
  }

  upsertAdditive<R>(sums: AdditiveUpsert<R>, rows: readonly R[]): void {
    const summed = (this.#sums.get(sums) as Summed<R> | undefined) ?? new Summed(sums);
    this.#sums.set(sums, summed.add(rows));
  }

  /** Sends what was gathered, in the order in which it was first asked for. */
  async insert({ dialect, writer }: Driver): Promise<void> {
    await Promise.all([...this.#inserts].map(([sql, rows]) => writer.insertMany(sql, rows)));
    const runner = { dialect, run: (query: Query): Promise<number> => writer.run(query) };
    // One kind after the other: pieces of two, mixed, could make two processes wait in a circle.
    for (const summed of this.#sums.values()) await summed.write(runner);
    this.#inserts.clear();
    this.#sums.clear();
  }
}

export class JobTransaction {
  readonly dialect;
  wrote = false;
  readonly undo: Undo[] = [];
  readonly #driver: Driver;
  readonly #versions: PolicyVersions;
  readonly #batch: Batch | undefined;
  #over = false;

  constructor(driver: Driver, versions: PolicyVersions, batch?: Batch) {
    this.#driver = driver;
    this.#versions = versions;
    this.#batch = batch;
    this.dialect = driver.dialect;
  }

  /** The brand exists only in the type: this is the one place that gives it. */
  get branded(): Tx {
    return this as unknown as Tx;
  }

  all<R>(query: Query): Promise<R[]> {
    if (this.#over) return tooLate();
    // A returning clause may write; only a plain select surely does not.
    if (!query.sql.startsWith("select")) this.wrote = true;
    return this.#driver.writer.all<R>(query);
  }

  first<R>(query: Query): Promise<R | undefined> {
    if (this.#over) return tooLate();
    if (!query.sql.startsWith("select")) this.wrote = true;
    return this.#driver.writer.first<R>(query);
  }

  firstMemoized<R>(query: Query): Promise<R | undefined> {
    if (this.#over) return tooLate();
    const ask = (): Promise<R | undefined> => this.#driver.writer.first<R>(query);
    return this.#batch ? this.#batch.asked.once(query, ask) : ask();
  }

  run(query: Query): Promise<number> {
    if (this.#over) return tooLate();
    this.wrote = true;
    return this.#driver.writer.run(query);
  }

  insertMany(sql: string, rows: readonly Row[]): Promise<void> {
    if (this.#over) return tooLate();
    this.wrote = true;
    return this.#driver.writer.insertMany(sql, rows);
  }

  /** A job on its own must know at once whether its insert was refused. */
  async insertDeferred(query: Query): Promise<void> {
    if (this.#over) return tooLate();
    this.wrote = true;
    if (this.#batch) this.#batch.insertDeferred(query);
    else await this.#driver.writer.run(query);
  }

  async upsertAdditive<R>(sums: AdditiveUpsert<R>, rows: readonly R[]): Promise<void> {
    if (this.#over) return tooLate();
    this.wrote = true;
    if (this.#batch) this.#batch.upsertAdditive(sums, rows);
    else await new Summed(sums).add(rows).write(this.branded);
  }

  bump(project_id: string, options?: { forgetDeltas?: boolean }): Promise<number> {
    if (this.#over) return tooLate();
    this.wrote = true;
    return this.#versions.bump(this.branded, project_id, options?.forgetDeltas ?? false, this.undo);
  }

  end(): void {
    this.#over = true;
  }
}

function tooLate(): Promise<never> {
  return Promise.reject(new Error("this job is over: its transaction takes nothing more"));
}
