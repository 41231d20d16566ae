// Additive upserts: rows that add to stored rows. The jobs of one batch often add to the same ones, so they are summed
// in memory and each is written once. bench: ingest/batch
import type { AdditiveUpsert, Runner } from "./tx.ts";

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

  /** Writes in key order, so that two processes with the same rows cannot deadlock. */
  write(on: Runner): Promise<void> {
    const keys = [...this.#rows.keys()].toSorted();
    return this.#upsert.write(
      on,
      keys.map((key) => this.#rows.get(key) as R),
    );
  }
}
