// A cache that owners share within the bounds of a ledger. At its share an owner replaces its own oldest entry; at the
// bound of all, the largest owner loses its oldest.
import { FairSet } from "./fair-set.ts";
import type { Ledger } from "./ledger.ts";
import type { Owner } from "./owners.ts";

export class FairMap<V> {
  readonly #entries = new Map<string, V>();
  readonly #owned: FairSet<string>;
  readonly #removed: (key: string, value: V) => void;

  /** `removed` is called for every entry that leaves, also one that is evicted. */
  constructor(ledger: Ledger, removed: (key: string, value: V) => void = () => {}) {
    this.#owned = new FairSet(ledger, (key) => this.#remove(key), { replacesOwn: () => true });
    this.#removed = removed;
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

  /** The entry becomes its owner's newest. Returns false and stores nothing if the owner has no room. */
  set(owner: Owner, key: string, value: V): boolean {
    this.#owned.touch(key);
    const hasRoom = this.#owned.add(owner, key);
    if (hasRoom) this.#entries.set(key, value);
    return hasRoom;
  }

  delete(key: string): void {
    if (this.#owned.delete(key)) this.#remove(key);
  }

  #remove(key: string): void {
    const value = this.#entries.get(key) as V;
    this.#entries.delete(key);
    this.#removed(key, value);
  }

  clear(): void {
    for (const key of this.#entries.keys()) this.delete(key);
  }
}
