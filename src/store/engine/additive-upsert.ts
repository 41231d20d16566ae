// Rows that are added to what stands there already. The jobs of one batch often add to the same ones: each is then
// written once, with what all of them bring.
import type { Runner } from "./bulk-insert.ts";

export type Sums<R> = {
  /** Tells rows apart as the primary key does. */
  keyOf(row: R): string;
  /** Both together. Neither is changed: a batch that fails is run again, job by job. */
  plus(a: R, b: R): R;
  write(on: Runner, rows: readonly R[]): Promise<void>;
};

/** Writes them in the order of their keys: two processes with the same rows then wait for each other, not in a circle. */
export class Summed<R> {
  readonly #sums: Sums<R>;
  readonly #rows = new Map<string, R>();

  constructor(sums: Sums<R>) {
    this.#sums = sums;
  }

  add(rows: readonly R[]): this {
    for (const row of rows) {
      const key = this.#sums.keyOf(row);
      const before = this.#rows.get(key);
      this.#rows.set(key, before === undefined ? row : this.#sums.plus(before, row));
    }
    return this;
  }

  write(on: Runner): Promise<void> {
    const ordered = [...this.#rows.keys()].toSorted();
    return this.#sums.write(
      on,
      ordered.map((key) => this.#rows.get(key) as R),
    );
  }
}
