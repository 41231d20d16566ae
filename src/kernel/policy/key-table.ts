// The keys of a policy in a flat hash table, indexed by the SHA-256 of their text. A row is 64 bytes, in 32-bit words:
//
//   0-7 digest | 8-9 expiry (float64 ms, Infinity = never) | 10 profile | 11 tenant | 12-15 key id
//
// Open addressing with linear probing: a row is at its home (the first digest word scaled to the capacity) or after it,
// with no empty row between. Profile and tenant are numbers of interned values; profile is 0 only in an empty row.
// Removal shifts rows back, so there are no tombstones and churn does not slow lookups. Caution: a row's offset is
// valid only until the next `put` or `remove`. bench: verify/floor-1e5, verify/memory-in-use

export const ROW = 16;
export const EXPIRY = 8;
export const PROFILE = 10;
export const TENANT = 11;
export const KEY_ID = 12;

// Beyond MAX_LOAD probe sequences grow long. A new or resized table has NEW_LOAD: 64 / 0.6 = 107 bytes per key.
const MAX_LOAD = 0.75;
const NEW_LOAD = 0.6;
const MIN_ROWS = 64;

export class KeyTable {
  words: Int32Array<ArrayBuffer>;
  times: Float64Array<ArrayBuffer>;
  count = 0;
  #rows: number;
  #scale: number;

  constructor(keys = 0) {
    this.#rows = Math.max(MIN_ROWS, Math.ceil(keys / NEW_LOAD));
    this.#scale = this.#rows / 2 ** 32;
    const buffer = new ArrayBuffer(this.#rows * ROW * 4);
    this.words = new Int32Array(buffer);
    this.times = new Float64Array(buffer);
  }

  /** The offset of the row with the digest at `from`, compared in full; or -1 - the offset to insert it at. */
  find(digest: Int32Array, from = 0): number {
    const words = this.words;
    const first = digest[from] as number;
    let at = this.#home(first);
    while (words[at] !== first || !sameDigest(words, at, digest, from)) {
      if (words[at + PROFILE] === 0) return -1 - at;
      at += ROW;
      if (at === words.length) at = 0;
    }
    // An all-zero digest from a broken feed equals every empty row.
    return words[at + PROFILE] === 0 ? -1 - at : at;
  }

  /** Inserts the row at `from` in `rows`, or replaces the one with its digest; true when it replaced one. */
  put(rows: Int32Array, from = 0): boolean {
    const at = this.find(rows, from);
    if (at < 0 && ++this.count > this.#rows * MAX_LOAD) {
      this.#resize(this.count);
      copyRow(rows, from, this.words, -1 - this.find(rows, from));
    } else {
      copyRow(rows, from, this.words, at < 0 ? -1 - at : at);
    }
    return at >= 0;
  }

  remove(at: number): void {
    const words = this.words;
    const end = words.length;
    let gap = at;
    let next = at;
    for (;;) {
      next = next + ROW === end ? 0 : next + ROW;
      if (words[next + PROFILE] === 0) break;
      const home = this.#home(words[next] as number);
      // A row may move back into the gap unless its home is between the two.
      const fromHome = next - home + (next < home ? end : 0);
      const fromGap = next - gap + (next < gap ? end : 0);
      if (fromHome < fromGap) continue;
      copyRow(words, next, words, gap);
      gap = next;
    }
    words.fill(0, gap, gap + ROW);
    this.count--;
  }

  /** A compact copy of all rows. */
  copyRows(): Int32Array<ArrayBuffer> {
    const out = new Int32Array(this.count * ROW);
    let to = 0;
    for (let at = 0; at < this.words.length; at += ROW) {
      if (this.words[at + PROFILE] === 0) continue;
      copyRow(this.words, at, out, to);
      to += ROW;
    }
    return out;
  }

  #home(first: number): number {
    return Math.floor((first >>> 0) * this.#scale) * ROW;
  }

  #resize(keys: number): void {
    const old = this.words;
    const next = new KeyTable(keys);
    for (let at = 0; at < old.length; at += ROW) {
      if (old[at + PROFILE] !== 0) copyRow(old, at, next.words, -1 - next.find(old, at));
    }
    this.words = next.words;
    this.times = next.times;
    this.#rows = next.#rows;
    this.#scale = next.#scale;
  }
}

function sameDigest(words: Int32Array, at: number, digest: Int32Array, from: number): boolean {
  return (
    words[at + 1] === digest[from + 1] &&
    words[at + 2] === digest[from + 2] &&
    words[at + 3] === digest[from + 3] &&
    words[at + 4] === digest[from + 4] &&
    words[at + 5] === digest[from + 5] &&
    words[at + 6] === digest[from + 6] &&
    words[at + 7] === digest[from + 7]
  );
}

/** A loop: `set` on sixteen words spends its time creating views. bench: verify/load */
function copyRow(from: Int32Array, at: number, to: Int32Array, toAt: number): void {
  for (let i = 0; i < ROW; i++) to[toAt + i] = from[at + i] as number;
}
