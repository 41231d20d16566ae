// A request that hands its body on as the parser reads it. Node makes a stream of it, and a stream's turns of the event loop
// cost a tenth of a small request. Nobody reads a request of ours in any other way.
import { IncomingMessage } from "node:http";

/** Takes a body: its pieces and its end, or that the caller left before it. */
export type Sink = { piece(bytes: Buffer): void; end(): void; lost(): void };

/** So much is held of a body that nobody asked for yet; then its sender has to wait. */
const HELD_MAX = 64 * 1024;

export class Request extends IncomingMessage {
  #sink: Sink | null = null;
  #held: Buffer[] | null = null;
  #heldBytes = 0;
  #lost = false;

  /** To be called once. Where the body is here already, the sink has all of it before this returns. */
  readTo(sink: Sink): void {
    this.#sink = sink;
    for (const piece of this.#held ?? []) sink.piece(piece);
    const full = this.#heldBytes >= HELD_MAX;
    this.#held = null;
    if (this.complete) sink.end();
    else if (this.#lost) sink.lost();
    else if (full) super._read(0); // the sender may go on
  }

  /** Called by the parser; false holds the sender up. */
  override push(piece: Buffer | null): boolean {
    if (piece === null) {
      super.push(null); // node waits for the end of a request before it lets go of it
      this.#sink?.end();
      return true;
    }
    if (this.#sink) {
      this.#sink.piece(piece);
      return true;
    }
    (this.#held ??= []).push(piece);
    this.#heldBytes += piece.length;
    return this.#heldBytes < HELD_MAX;
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    if (!this.complete && !this.#lost) {
      this.#lost = true;
      this.#sink?.lost();
    }
    super._destroy(error, callback);
  }
}
