// A cache that owners share within the bounds of a ledger. At its share an owner replaces its own oldest entry; at the
// bound of all, the largest owner loses its oldest.
import { FairSet } from "./fair-set.ts";
import type { Ledger } from "./ledger.ts";
import type { Owner } from "./owners.ts";

export class FairMap<V> {
  readonly #entries = new Map<string, V>();
  readonly #owned: FairSet<string>;

  constructor(ledger: Ledger) {
    this.#owned = new FairSet(ledger, (key) => this.#entries.delete(key), { replacesOwn: () => true });
  }

  get size(): number {
    return this.#entries.size;
  }

  get(key: string): V | undefined {
    return this.#entries.get(key);
  }

  [Symbol.iterator](): Iterator<[string, V]> {
    return this.#entries[Symbol.iterator]();
  }

  /** The entry becomes its owner's newest. Stores nothing if the owner has no room. */
  set(owner: Owner, key: string, value: V): void {
    this.#owned.touch(key);
    if (this.#owned.add(owner, key)) this.#entries.set(key, value);
  }

  delete(key: string): void {
    if (this.#entries.delete(key)) this.#owned.delete(key);
  }

  clear(): void {
    for (const key of this.#entries.keys()) this.delete(key);
  }
}
