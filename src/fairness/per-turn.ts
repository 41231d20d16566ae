/** Admits a few in each turn of the event loop, of all callers together. */
export class PerTurn {
  readonly #max: number;
  #asked = 0;

  constructor(max: number) {
    this.#max = max;
  }

  admits(): boolean {
    if (this.#asked++ === 0) setImmediate(() => (this.#asked = 0));
    return this.#asked <= this.#max;
  }
}
