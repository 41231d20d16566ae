// The Merkle tree of RFC 6962 §2.1, built by appending leaves. With || for concatenation of bytes:
//
//   leaf hash = H(0x00 || leaf)     node hash = H(0x01 || left || right)     root of no leaves = H("")
//
// Holds only the roots of the complete subtrees, the largest (oldest) first: one for each 1 bit of the size.

export type HashFunction = (bytes: Uint8Array) => Uint8Array;
/** The state that restores a tree: its size and its `frontier()`. */
type SavedTree = { size: number; frontier: readonly Uint8Array[] };

export class MerkleTree {
  readonly #hash: HashFunction;
  readonly #roots: Uint8Array[];
  #size: number;

  constructor(hash: HashFunction, saved: SavedTree = { size: 0, frontier: [] }) {
    if (!Number.isSafeInteger(saved.size) || saved.size < 0 || saved.frontier.length !== countOnes(saved.size)) {
      throw new RangeError("The saved frontier does not belong to a tree of this size.");
    }
    this.#hash = hash;
    this.#roots = [...saved.frontier];
    this.#size = saved.size;
  }

  get size(): number {
    return this.#size;
  }

  append(leaf: Uint8Array): void {
    let node = this.#hash(join(0x00, leaf));
    for (let rest = this.#size; rest % 2 === 1; rest = (rest - 1) / 2) node = this.#parent(this.#roots.pop(), node);
    this.#roots.push(node);
    this.#size++;
  }

  root(): Uint8Array {
    if (this.#size === 0) return this.#hash(new Uint8Array(0));
    return this.#roots.reduceRight((right, left) => this.#parent(left, right));
  }

  frontier(): Uint8Array[] {
    return [...this.#roots];
  }

  #parent(left: Uint8Array | undefined, right: Uint8Array): Uint8Array {
    return this.#hash(join(0x01, left as Uint8Array, right));
  }
}

function join(tag: number, left: Uint8Array, right: Uint8Array = new Uint8Array(0)): Uint8Array {
  const bytes = new Uint8Array(1 + left.length + right.length);
  bytes[0] = tag;
  bytes.set(left, 1);
  bytes.set(right, 1 + left.length);
  return bytes;
}

function countOnes(size: number): number {
  let ones = 0;
  for (let rest = size; rest > 0; rest = Math.floor(rest / 2)) ones += rest % 2;
  return ones;
}
