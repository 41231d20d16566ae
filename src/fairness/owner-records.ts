// One record per owner, opened at its first use. Up to a number of records stay while they are idle: deleting each as
// soon as it is idle would cost garbage collection at every request (docs/design/0020-short-lived-items.md).

const KEPT_MAX = 1_024;

export class OwnerRecords<R> {
  readonly #records = new Map<string, R>();

  get size(): number {
    return this.#records.size;
  }

  get(id: string): R | undefined {
    return this.#records.get(id);
  }

  add(id: string, record: R): R {
    this.#records.set(id, record);
    return record;
  }

  /** The record is idle: a new one would serve as well. */
  retire(id: string): void {
    if (this.#records.size > KEPT_MAX) this.#records.delete(id);
  }

  values(): Iterable<R> {
    return this.#records.values();
  }
}
