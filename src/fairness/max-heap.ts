// A max-heap whose entries know their index, so that one that grows or shrinks is moved in O(log n).

export type HeapEntry = {
  /** What entries are ordered by. */
  used: number;
  /** Entries that are evicted first come before all others. */
  readonly evictedFirst: boolean;
  /** Index in its heap, or OUTSIDE; kept by the heap. */
  place: number;
};

export const OUTSIDE = -1;

export class MaxHeap<E extends HeapEntry> {
  readonly #entries: E[] = [];

  get top(): E | undefined {
    return this.#entries[0];
  }

  add(entry: E): void {
    this.#put(entry, this.#entries.length);
    this.#rise(entry);
  }

  /** Restores the order after `entry.used` has changed. */
  moved(entry: E): void {
    if (entry.place === OUTSIDE) return;
    this.#rise(entry);
    this.#sink(entry);
  }

  delete(entry: E): void {
    const { place } = entry;
    if (place === OUTSIDE) return;
    entry.place = OUTSIDE;
    const last = this.#entries.pop();
    if (!last || last === entry) return;
    this.#put(last, place);
    this.moved(last);
  }

  #put(entry: E, place: number): void {
    this.#entries[place] = entry;
    entry.place = place;
  }

  #rise(entry: E): void {
    while (entry.place > 0) {
      const parent = this.#entries[(entry.place - 1) >> 1] as E;
      if (!isAbove(entry, parent)) return;
      this.#swap(entry, parent);
    }
  }

  #sink(entry: E): void {
    for (;;) {
      const left = this.#entries[2 * entry.place + 1];
      const right = this.#entries[2 * entry.place + 2];
      const child = right && left && isAbove(right, left) ? right : left;
      if (!child || !isAbove(child, entry)) return;
      this.#swap(child, entry);
    }
  }

  #swap(a: E, b: E): void {
    const { place } = a;
    this.#put(a, b.place);
    this.#put(b, place);
  }
}

function isAbove(a: HeapEntry, b: HeapEntry): boolean {
  return a.evictedFirst === b.evictedFirst ? a.used > b.used : a.evictedFirst;
}
