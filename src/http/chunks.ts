// Bytes that come bit by bit. A Buffer costs some hundred bytes besides its own: of a caller who sends single bytes, the
// first few are kept as they came and the rest is copied together.

const FEW = 16;
const SMALL = 1_024;
const BLOCK = 8 * 1_024;

export class ChunkList {
  bytes = 0;
  readonly #list: Buffer[] = [];
  /** The last of the list while there is room in it. */
  #block: Buffer | null = null;
  #used = 0;

  add(piece: Buffer): void {
    this.bytes += piece.length;
    if (this.#list.length < FEW || piece.length >= SMALL) {
      this.#seal();
      this.#list.push(piece);
      return;
    }
    if (!this.#block || this.#used + piece.length > BLOCK) {
      this.#seal();
      this.#block = Buffer.allocUnsafeSlow(BLOCK);
      this.#list.push(this.#block);
    }
    this.#used += piece.copy(this.#block, this.#used);
  }

  joined(): Buffer {
    this.#seal();
    const [only] = this.#list;
    return only && this.#list.length === 1 ? only : Buffer.concat(this.#list);
  }

  #seal(): void {
    if (this.#block) this.#list[this.#list.length - 1] = this.#block.subarray(0, this.#used);
    this.#block = null;
    this.#used = 0;
  }
}
