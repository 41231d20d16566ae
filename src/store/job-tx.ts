// The transaction as one job sees it. It ends with the job: what a failed job still sends afterwards is refused, or it
// would land outside the job's savepoint and be committed with the others.
import type { Driver } from "./driver.ts";
import type { Query, Tx } from "./statement.ts";
import type { Undo, Versions } from "./versions.ts";

export class JobTx {
  readonly dialect;
  wrote = false;
  readonly undo: Undo[] = [];
  readonly #driver: Driver;
  readonly #versions: Versions;
  #over = false;

  constructor(driver: Driver, versions: Versions) {
    this.#driver = driver;
    this.#versions = versions;
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

  run(query: Query): Promise<number> {
    if (this.#over) return tooLate();
    this.wrote = true;
    return this.#driver.writer.run(query);
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
