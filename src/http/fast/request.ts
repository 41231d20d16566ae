// A request that passes its body on as the parser reads it, without a stream: a stream takes several turns of the event
// loop per body. Nothing else can read it. bench: ratelimit/check
// Caution: a connection keeps its last request until the next one arrives, so a request must not keep its body.
import { IncomingMessage } from "node:http";
import { DROP, type BodySink, type RequestBody } from "../body/body.ts";
import { ChunkList } from "../body/chunk-list.ts";

/** Bytes buffered before the body is read; then back-pressure stops the sender. */
const BUFFER_MAX = 64 * 1024;

export class FastRequest extends IncomingMessage implements RequestBody {
  #sink: BodySink | null = null;
  #buffered: ChunkList | null = null;
  #lost = false;

  /** A body that has arrived already is passed on before this returns. */
  readTo(sink: BodySink): void {
    if (this.#sink || this.#lost) return sink.abort();
    const buffered = this.#buffered;
    this.#buffered = null;
    this.#sink = sink;
    if (buffered) sink.chunk(buffered.joined());
    if (this.complete) this.#takeSink().end();
    else if (buffered && buffered.bytes >= BUFFER_MAX) super._read(0); // resumes the sender
  }

  discard(): void {
    this.#takeSink().drop();
    this.#buffered = null;
  }

  /** Called by the parser; false applies back-pressure. */
  override push(chunk: Buffer | null): boolean {
    if (chunk === null) {
      // Node drains a stream that was never read. This one is empty: mark it as being read.
      if (this.readableFlowing === null) super._read(0);
      else super.push(null);
      if (this.#sink) this.#takeSink().end();
      return true;
    }
    if (this.#sink) {
      this.#sink.chunk(chunk);
      return true;
    }
    this.#buffered ??= new ChunkList();
    this.#buffered.add(chunk);
    return this.#buffered.bytes < BUFFER_MAX;
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    if (!this.complete && !this.#lost) {
      this.#lost = true;
      this.#takeSink().abort();
      this.#buffered = null;
    }
    super._destroy(error, callback);
  }

  #takeSink(): BodySink {
    const sink = this.#sink ?? DROP;
    this.#sink = DROP;
    return sink;
  }
}

/** Node releases a request that has ended with its response, and waits for the end of the stream of any other. */
Object.defineProperty(FastRequest.prototype, "readableEnded", {
  get(this: FastRequest): boolean {
    return this.complete;
  },
});
