// One record per owner, opened at its first use. Idle records are forgotten together, once there are many: deleting
// each as soon as it is idle would cost garbage collection at every request (docs/design/0020-short-lived-items.md).

const KEPT_MIN = 1_024;

export class OwnerRecords<R> {
  readonly #isIdle: (record: R) => boolean;
  #records = new Map<string, R>();
  #max = KEPT_MIN;

  /** `isIdle`: whether the record may be forgotten, because a new one would serve as well. */
  constructor(isIdle: (record: R) => boolean) {
    this.#isIdle = isIdle;
  }

  get(id: string): R | undefined {
    return this.#records.get(id);
  }

  add(id: string, record: R): R {
    if (this.#records.size >= this.#max) this.#forgetIdle();
    this.#records.set(id, record);
    return record;
  }

  /** The records that are not idle. */
  active(): R[] {
    return [...this.#records.values()].filter((record) => !this.#isIdle(record));
  }

  #forgetIdle(): void {
    this.#records = new Map([...this.#records].filter(([, record]) => !this.#isIdle(record)));
    this.#max = Math.max(KEPT_MIN, 2 * this.#records.size);
  }
}
