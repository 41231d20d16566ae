// A Map that holds at most `max` entries. Adding one more first evicts the oldest: by insertion, which makes it a FIFO
// cache, or by last use if the caller calls `touch` on each hit, which makes it an LRU cache.

type BoundedMapOptions<K, V> = {
  max: number;
  /** Entries evicted at a time: 1 by default. More keeps the cost of a flood of new keys low; `max` empties the map. */
  evictAtOnce?: number;
  onEvict?: (value: V, key: K) => void;
};

export class BoundedMap<K, V> extends Map<K, V> {
  readonly #options: BoundedMapOptions<K, V>;

  constructor(options: BoundedMapOptions<K, V>) {
    super();
    this.#options = options;
  }

  /** Replaces a value in place: its entry keeps its age. */
  override set(key: K, value: V): this {
    if (this.size >= this.#options.max && !this.has(key)) this.#evict();
    return super.set(key, value);
  }

  /** Makes an entry the youngest. */
  touch(key: K): void {
    const value = this.get(key);
    if (!this.delete(key)) return;
    super.set(key, value as V);
  }

  #evict(): void {
    const { evictAtOnce = 1, onEvict } = this.#options;
    let left = evictAtOnce;
    // A Map iterates in insertion order.
    for (const [key, value] of this) {
      if (left-- <= 0) return;
      this.delete(key);
      onEvict?.(value, key);
    }
  }
}
