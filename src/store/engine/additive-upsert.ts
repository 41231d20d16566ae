// Rows that are added to what stands there already. The jobs of one batch often add to the same ones: each is then
// written once, with what all of them bring.
import type { Runner, AdditiveUpsert } from "./tx.ts";

/** Writes them in the order of their keys: two processes with the same rows then wait for each other, not in a circle. */
export class Summed<R> {
  readonly #sums: AdditiveUpsert<R>;
  readonly #rows = new Map<string, R>();

  constructor(sums: AdditiveUpsert<R>) {
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
