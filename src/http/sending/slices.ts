// Sends a large body in slices, each after the one before has left: written at once, TLS would copy all of it. Until the
// client has taken it, the body is charged to its owner.
import type { ServerResponse } from "node:http";
import type { LargeResponses } from "../../fairness/large-responses.ts";
import type { Owner } from "../../fairness/owners.ts";
import type { HttpResponse } from "../response.ts";

export const SLICE_BYTES = 64 * 1024;

type Chunks = readonly Uint8Array[];

/** A body as the chunks that are sent; text is encoded here, once. */
export function chunksOf(body: NonNullable<HttpResponse["body"]>): Chunks {
  if (typeof body === "string") return [Buffer.from(body)];
  return Array.isArray(body) ? (body as Chunks) : [body as Uint8Array];
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

/** Charges a body until the response has closed. A client may have left before its response was ready. */
export function chargeBody(
  largeResponses: LargeResponses,
  owner: Owner,
  res: ServerResponse,
  chunks: Chunks,
  bytes: number,
): void {
  if (res.closed || res.destroyed) return;
  // Pages share their chunks, so the first chunk names what is sent.
  const release = largeResponses.charge(owner, chunks[0] ?? chunks, bytes, () => res.destroy());
  res.once("close", release);
}
