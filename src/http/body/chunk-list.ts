// The chunks of a body until it is complete.

/** A Buffer costs some hundred bytes besides its content: after the first few, small chunks are copied into blocks. */
const SEPARATE_MAX = 16;
const SMALL_BYTES = 1_024;
const BLOCK_BYTES = 8 * 1_024;

export class ChunkList {
  bytes = 0;
  readonly #list: Buffer[] = [];
  /** The last of the list while it has room. */
  #block: Buffer | null = null;
  #used = 0;

  add(chunk: Buffer): void {
    this.bytes += chunk.length;
    if (this.#list.length < SEPARATE_MAX || chunk.length >= SMALL_BYTES) {
      this.#seal();
      this.#list.push(chunk);
      return;
    }
    if (!this.#block || this.#used + chunk.length > BLOCK_BYTES) {
      this.#seal();
      this.#block = Buffer.allocUnsafeSlow(BLOCK_BYTES);
      this.#list.push(this.#block);
    }
    this.#used += chunk.copy(this.#block, this.#used);
  }

  clear(): void {
    this.bytes = 0;
    this.#list.length = 0;
    this.#block = null;
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
