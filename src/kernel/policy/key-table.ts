// The keys of one policy in one flat buffer, found by the SHA-256 of their text. A row is 64 bytes, in words of 32 bits:
//
//   0-7 digest | 8-9 expiry (float64 ms, Infinity = never) | 10 profile | 11 tenant | 12-15 key id
//
// Open addressing, linear probing: a row stands at its home (the first digest word scaled to the capacity) or after it,
// with no empty row between. Profile and tenant are numbers of interned values; profile is 0 only in an empty row. A
// removal closes its gap, so there are no tombstones and years of churn cost nothing. A row's offset is good only until
// the next `put` or `remove`.

export const ROW = 16;
export const EXPIRY = 8;
export const PROFILE = 10;
export const TENANT = 11;
export const KEY_ID = 12;

// Fuller than MAX_LOAD probes grow long; after growing, and in a new table, a key costs 64 / 0.6 = 107 bytes.
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

  /** The offset of the row with the digest that stands at `from`, all 32 bytes compared, or -1 - where it would go. */
  find(digest: Int32Array, from = 0): number {
    const words = this.words;
    const first = digest[from] as number;
    let at = this.#home(first);
    while (words[at] !== first || !sameDigest(words, at, digest, from)) {
      if (words[at + PROFILE] === 0) return -1 - at;
      at += ROW;
      if (at === words.length) at = 0;
    }
    // A feed may send a hash of nothing but zeros, which every empty row equals.
    return words[at + PROFILE] === 0 ? -1 - at : at;
  }

  /** Adds the row that stands at `from` in `rows`, or replaces the one with its digest; true when it replaced one. */
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
    let hole = at;
    let next = at;
    for (;;) {
      next = next + ROW === end ? 0 : next + ROW;
      if (words[next + PROFILE] === 0) break;
      const home = this.#home(words[next] as number);
      // A row may move back into the hole unless its home lies between the two.
      const fromHome = next - home + (next < home ? end : 0);
      const fromHole = next - hole + (next < hole ? end : 0);
      if (fromHome < fromHole) continue;
      copyRow(words, next, words, hole);
      hole = next;
    }
    words.fill(0, hole, hole + ROW);
    this.count--;
  }

  /** Every row without the empty ones between, as a copy that later changes do not touch. */
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

/** A loop, because `set` on sixteen words spends its time making views. */
function copyRow(from: Int32Array, at: number, to: Int32Array, toAt: number): void {
  for (let i = 0; i < ROW; i++) to[toAt + i] = from[at + i] as number;
}
