// The tenants of a policy's keys: each id once, as 16 bytes, named by a small number from 1 up and counted by the keys
// that use it. Its text is made when it is first asked for and kept: most tenants of a large vendor are asleep, and a
// million texts would cost more than all their keys.

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

  /** One more key of the tenant whose id stands at `from`. */
  acquire(words: Int32Array, from: number): number {
    const slot = this.#find(words, from);
    const known = this.#slots[slot] as number;
    if (known !== 0) {
      this.#uses[known] = (this.#uses[known] as number) + 1;
      return known;
    }
    const id = this.#free.pop() ?? this.#next++;
    this.#ids = grown(this.#ids, (id + 1) * 4);
    this.#uses = grown(this.#uses, id + 1);
    for (let i = 0; i < 4; i++) this.#ids[id * 4 + i] = words[from + i] as number;
    this.#uses[id] = 1;
    this.#slots[slot] = id;
    if (this.#next * 2 > this.#slots.length) this.#spread();
    return id;
  }

  /** One key less; the last one takes the tenant with it. */
  release(id: number): void {
    const uses = (this.#uses[id] as number) - 1;
    this.#uses[id] = uses;
    if (uses > 0) return;
    this.#leave(this.#find(this.#ids, id * 4));
    this.#texts[id] = undefined;
    this.#free.push(id);
  }

  text(id: number): string {
    return (this.#texts[id] ??= wordsToUuid(this.#ids, id * 4));
  }

  get size(): number {
    return this.#next - 1 - this.#free.length;
  }

  /** Every id by its number (the first four words are nobody's), for writing a policy to a file. */
  copyIds(): Int32Array<ArrayBuffer> {
    return this.#ids.slice(0, this.#next * 4);
  }

  /** The slot of this id, or the empty one where it would go. */
  #find(words: Int32Array, from: number): number {
    const mask = this.#slots.length - 1;
    for (let slot = home(words, from) & mask; ; slot = (slot + 1) & mask) {
      const id = this.#slots[slot] as number;
      if (id === 0 || same(this.#ids, id * 4, words, from)) return slot;
    }
  }

  #spread(): void {
    const old = this.#slots;
    this.#slots = new Int32Array(old.length * 2);
    for (const id of old) if (id !== 0) this.#slots[this.#find(this.#ids, id * 4)] = id;
  }

  /** Empties a slot and moves up the ones behind it that may stand there. */
  #leave(slot: number): void {
    const slots = this.#slots;
    const mask = slots.length - 1;
    let hole = slot;
    for (let next = (hole + 1) & mask; slots[next] !== 0; next = (next + 1) & mask) {
      const id = slots[next] as number;
      if (((next - home(this.#ids, id * 4)) & mask) < ((next - hole) & mask)) continue;
      slots[hole] = id;
      hole = next;
    }
    slots[hole] = 0;
  }
}

/** Time-ordered ids share their first words; the last two are chance. */
function home(words: Int32Array, from: number): number {
  return Math.imul((words[from + 3] as number) ^ (words[from + 2] as number), 0x9e3779b1) >>> 7;
}

function same(a: Int32Array, at: number, b: Int32Array, from: number): boolean {
  const tail = a[at + 3] === b[from + 3] && a[at + 2] === b[from + 2];
  return tail && a[at + 1] === b[from + 1] && a[at] === b[from];
}

function grown(words: Int32Array<ArrayBuffer>, length: number): Int32Array<ArrayBuffer> {
  if (length <= words.length) return words;
  const larger = new Int32Array(Math.ceil(length * 1.25));
  larger.set(words);
  return larger;
}
