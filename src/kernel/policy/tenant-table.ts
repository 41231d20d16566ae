// The tenants of a policy's keys: each id once, as 16 bytes under a small number from 1 up, with a reference count. The
// id as a string is created on first use and memoized: most tenants of a large vendor are idle, and a million strings
// would take more memory than all their keys. bench: verify/memory-in-use

import { wordsToUuid } from "../crypto/word-codec.ts";

const MIN = 64;

export class TenantTable {
  #ids = new Int32Array(MIN * 4);
  #uses = new Int32Array(MIN);
  /** Open addressing, at most half full: 0 or a tenant's number. */
  #slots = new Int32Array(MIN * 2);
  readonly #texts: (string | undefined)[] = [];
  readonly #free: number[] = [];
  #next = 1;

  /** Adds a reference to the tenant whose id is at `from`. */
  acquire(words: Int32Array, from: number): number {
    const slot = this.#find(words, from);
    const known = this.#slots[slot] as number;
    if (known !== 0) {
      this.#uses[known] = (this.#uses[known] as number) + 1;
      return known;
    }
    const id = this.#free.pop() ?? this.#next++;
    this.#ids = ensureLength(this.#ids, (id + 1) * 4);
    this.#uses = ensureLength(this.#uses, id + 1);
    for (let i = 0; i < 4; i++) this.#ids[id * 4 + i] = words[from + i] as number;
    this.#uses[id] = 1;
    this.#slots[slot] = id;
    if (this.#next * 2 > this.#slots.length) this.#grow();
    return id;
  }

  /** Removes a reference; the last one removes the tenant. */
  release(id: number): void {
    const uses = (this.#uses[id] as number) - 1;
    this.#uses[id] = uses;
    if (uses > 0) return;
    this.#clearSlot(this.#find(this.#ids, id * 4));
    this.#texts[id] = undefined;
    this.#free.push(id);
  }

  text(id: number): string {
    return (this.#texts[id] ??= wordsToUuid(this.#ids, id * 4));
  }

  get size(): number {
    return this.#next - 1 - this.#free.length;
  }

  /** Every id by its number (number 0 is unused), for the cache file. */
  copyIds(): Int32Array<ArrayBuffer> {
    return this.#ids.slice(0, this.#next * 4);
  }

  /** The slot of this id, or the empty slot where it would be inserted. */
  #find(words: Int32Array, from: number): number {
    const mask = this.#slots.length - 1;
    for (let slot = home(words, from) & mask; ; slot = (slot + 1) & mask) {
      const id = this.#slots[slot] as number;
      if (id === 0 || same(this.#ids, id * 4, words, from)) return slot;
    }
  }

  #grow(): void {
    const old = this.#slots;
    this.#slots = new Int32Array(old.length * 2);
    for (const id of old) if (id !== 0) this.#slots[this.#find(this.#ids, id * 4)] = id;
  }

  /** Empties a slot and shifts back the following ones that may move. */
  #clearSlot(slot: number): void {
    const slots = this.#slots;
    const mask = slots.length - 1;
    let gap = slot;
    for (let next = (gap + 1) & mask; slots[next] !== 0; next = (next + 1) & mask) {
      const id = slots[next] as number;
      if (((next - home(this.#ids, id * 4)) & mask) < ((next - gap) & mask)) continue;
      slots[gap] = id;
      gap = next;
    }
    slots[gap] = 0;
  }
}

/** Time-ordered ids share their first words; the last two are random. */
function home(words: Int32Array, from: number): number {
  return Math.imul((words[from + 3] as number) ^ (words[from + 2] as number), 0x9e3779b1) >>> 7;
}

function same(a: Int32Array, at: number, b: Int32Array, from: number): boolean {
  const tail = a[at + 3] === b[from + 3] && a[at + 2] === b[from + 2];
  return tail && a[at + 1] === b[from + 1] && a[at] === b[from];
}

function ensureLength(words: Int32Array<ArrayBuffer>, length: number): Int32Array<ArrayBuffer> {
  if (length <= words.length) return words;
  const larger = new Int32Array(Math.ceil(length * 1.25));
  larger.set(words);
  return larger;
}
