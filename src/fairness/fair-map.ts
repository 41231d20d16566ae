// A cache that owners share within the bounds of a ledger. At its share an owner replaces its own oldest entry; at the
// bound of all, the largest owner loses its oldest.
import { FairSet } from "./fair-set.ts";
import type { Ledger } from "./ledger.ts";
import type { Owner } from "./owners.ts";

type Entry<V> = { readonly key: string; value: V };

export class FairMap<V> {
  readonly #entries = new Map<string, Entry<V>>();
  readonly #owned: FairSet<Entry<V>>;
  readonly #removed: (key: string, value: V) => void;

  /** `removed` is called for every entry that leaves, also one that is evicted. */
  constructor(ledger: Ledger, removed: (key: string, value: V) => void = () => {}) {
    this.#owned = new FairSet(ledger, (entry) => this.#remove(entry), { replacesOwn: () => true });
    this.#removed = removed;
  }

  get size(): number {
    return this.#entries.size;
  }

  get(key: string): V | undefined {
    return this.#entries.get(key)?.value;
  }

  /**
   * Oldest first. Only the current entry may be removed meanwhile. A Map would pass over all entries that it has
   * deleted before the first one. bench: lanes/lease
   */
  *[Symbol.iterator](): Iterator<[string, V]> {
    for (const { key, value } of this.#owned) yield [key, value];
  }

  /** The entry becomes its owner's newest. Returns false and stores nothing if the owner has no room. */
  set(owner: Owner, key: string, value: V): boolean {
    const known = this.#entries.get(key);
    if (known) {
      known.value = value;
      this.#owned.touch(known);
      return true;
    }
    const entry = { key, value };
    const hasRoom = this.#owned.add(owner, entry);
    if (hasRoom) this.#entries.set(key, entry);
    return hasRoom;
  }

  delete(key: string): void {
    const entry = this.#entries.get(key);
    if (entry && this.#owned.delete(entry)) this.#remove(entry);
  }

  #remove({ key, value }: Entry<V>): void {
    this.#entries.delete(key);
    this.#removed(key, value);
  }

  clear(): void {
    for (const key of this.#entries.keys()) this.delete(key);
  }
}
