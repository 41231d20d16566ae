// A request that hands its body on as the parser reads it. Node makes a stream of it, and a stream's turns of the event loop
// cost a tenth of a small request. Nobody reads a request of ours in any other way.
// The trap: a connection holds on to its last request until the next one, so a request must not hold on to its body.
import { IncomingMessage } from "node:http";
import { ChunkList } from "../chunks.ts";

/** Takes a body: its pieces and its end, or that there will be none. */
export type BodySink = { piece(bytes: Buffer): void; end(): void; lost(): void };

/** So much is held of a body that nobody asked for yet; then its sender has to wait. */
const HELD_MAX = 64 * 1024;

/** Takes what nobody wants any more. */
const NOBODY: BodySink = { piece() {}, end() {}, lost() {} };

export class FastRequest extends IncomingMessage {
  #sink: BodySink | null = null;
  #held: ChunkList | null = null;
  #lost = false;

  /** To be called once. Where the body is here already, the sink has all of it before this returns. */
  readTo(sink: BodySink): void {
    if (this.#sink || this.#lost) return sink.lost();
    const held = this.#held;
    this.#held = null;
    this.#sink = sink;
    if (held) sink.piece(held.joined());
    if (this.complete) this.#leave().end();
    else if (held && held.bytes >= HELD_MAX) super._read(0); // the sender may go on
  }

  /** Its answer is on its way: what was held is let go, and what still comes is dropped. */
  forget(): void {
    this.#sink = NOBODY;
    this.#held = null;
  }

  /** Called by the parser; false holds the sender up. */
  override push(piece: Buffer | null): boolean {
    if (piece === null) {
      // Node empties a stream that nobody read. This one holds nothing: it is told that somebody reads.
      if (this.readableFlowing === null) super._read(0);
      else super.push(null);
      if (this.#sink) this.#leave().end();
      return true;
    }
    if (this.#sink) {
      this.#sink.piece(piece);
      return true;
    }
    this.#held ??= new ChunkList();
    this.#held.add(piece);
    return this.#held.bytes < HELD_MAX;
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    if (!this.complete && !this.#lost) {
      this.#lost = true;
      this.#leave().lost();
      this.#held = null;
    }
    super._destroy(error, callback);
  }

  #leave(): BodySink {
    const sink = this.#sink ?? NOBODY;
    this.#sink = NOBODY;
    return sink;
  }
}

/** Node lets go of a request that has ended with its answer, and waits for the end of any other one's stream. */
Object.defineProperty(FastRequest.prototype, "readableEnded", {
  get(this: FastRequest): boolean {
    return this.complete;
  },
});
