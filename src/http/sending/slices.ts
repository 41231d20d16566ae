// Sends a large body in slices, each after the one before has left: written at once, TLS would copy all of it.
import type { ServerResponse } from "node:http";
import { isChunks, type HttpResponse } from "../response.ts";

export const SLICE_BYTES = 64 * 1024;

type Chunks = readonly Uint8Array[];

/** Called with a large body before it is sent. */
export type ChargeBody = (chunks: Chunks, bytes: number) => void;

/** A body as the chunks that are sent; text is encoded here, once. */
export function chunksOf(body: NonNullable<HttpResponse["body"]>): Chunks {
  if (typeof body === "string") return [Buffer.from(body)];
  return isChunks(body) ? body : [body as Uint8Array];
}

export function* slicesOf(chunks: Chunks): Generator<Uint8Array> {
  for (const chunk of chunks) {
    for (let at = 0; at < chunk.length; at += SLICE_BYTES) yield chunk.subarray(at, at + SLICE_BYTES);
  }
}

/** Writes the slices and ends the response. Its head must have been written. */
export function writeSlices(res: ServerResponse, chunks: Chunks): void {
  const slices = slicesOf(chunks);
  const writeNext = (): void => {
    // By hand: leaving a for…of loop would end the generator, and the remaining slices with it.
    for (let next = slices.next(); !next.done; next = slices.next()) {
      if (res.destroyed) return;
      if (!res.write(next.value)) {
        res.once("drain", writeNext);
        return;
      }
    }
    res.end();
  };
  writeNext();
}
