// Reads a request body within its limits of bytes and structure.
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { fail, type Failure } from "../../kernel/errors.ts";
import type { ArrayCuts } from "../../domain/ingest/raw-body.ts";
import { ChunkList } from "./chunk-list.ts";
import { JsonStructure, type StructureLimits } from "./structure.ts";

/**
 * Receives a body: its chunks, then its end; or `abort` if the client disconnects, or `drop` if the response has been
 * sent meanwhile.
 */
export type BodySink = { chunk(bytes: Buffer): void; end(): void; abort(): void; drop(): void };

/** Discards the body. */
export const DROP: BodySink = { chunk() {}, end() {}, abort() {}, drop() {} };

/** A body that can be read once. */
export type RequestBody = {
  /** Aborts the sink if the body was read, discarded or lost before. */
  readTo(sink: BodySink): void;
  /** The body is not needed: releases what is buffered and drops what still arrives. */
  discard(): void;
};

/** The body of a plain request of node:http. */
export class StreamBody implements RequestBody {
  readonly #message: IncomingMessage;
  #sink: BodySink | null = null;

  static of = (message: IncomingMessage): StreamBody => new StreamBody(message);

  constructor(message: IncomingMessage) {
    this.#message = message;
  }

  readTo(sink: BodySink): void {
    if (this.#sink || this.#message.destroyed) return sink.abort();
    this.#sink = sink;
    this.#message
      .on("data", (bytes: Buffer) => this.#sink?.chunk(bytes))
      .once("end", () => this.#takeSink().end())
      .once("close", () => this.#takeSink().abort());
  }

  discard(): void {
    if (!this.#sink) this.#message.on("data", () => {}); // without a listener it would be buffered first
    this.#takeSink().drop();
  }

  #takeSink(): BodySink {
    const sink = this.#sink ?? DROP;
    this.#sink = DROP;
    return sink;
  }
}

/**
 * Refuses a body by its headers, before any of it is read. In chunks and without a type it may be empty: see
 * `requireJson`.
 */
export function checkMedia(headers: IncomingHttpHeaders, max: number): void {
  const { "content-length": length, "content-encoding": encoding, "content-type": type } = headers;
  if (length !== undefined && Number(length) > max) throw tooLarge();
  const empty = length === "0" || (length === undefined && headers["transfer-encoding"] === undefined);
  if (empty) return;
  if (encoding !== undefined && encoding.toLowerCase() !== "identity") {
    throw fail("unsupported_media_type", { headers: { "accept-encoding": "identity" } });
  }
  const mayBeEmpty = length === undefined && type === undefined;
  if (!mayBeEmpty && !isJson(type)) throw fail("unsupported_media_type");
}

/** The body that has arrived: empty, or of type JSON. */
export function requireJson({ "content-type": type }: IncomingHttpHeaders, bytes: Buffer): Buffer {
  if (bytes.length > 0 && !isJson(type)) throw fail("unsupported_media_type");
  return bytes;
}

/** A body up to this size reserves no room before it is read, only once it turns out to arrive in several pieces. */
const SMALL_BYTES = 64 * 1024;

/** How many bytes to reserve for a body; 0 for a small one. A body of unknown length may have its maximum. */
export function reservedBytes(headers: IncomingHttpHeaders, max: number): number {
  if (headers["transfer-encoding"] !== undefined) return max;
  const length = Number(headers["content-length"] ?? 0);
  return length > SMALL_BYTES ? length : 0;
}

function isJson(type: string | undefined): boolean {
  return type !== undefined && /^application\/json\s*(;\s*charset\s*=\s*"?utf-8"?\s*)?$/i.test(type.trim());
}

/** Closes the connection instead of reading an oversized body to its end. */
function tooLarge() {
  return fail("payload_too_large", { closes: true });
}

/** Closes the connection instead of reading an overly complex body to its end. */
function tooComplex() {
  return fail("body_too_complex", { closes: true });
}

export type BodyLimits = StructureLimits & { readonly bytes: number };

/** Receives a body that is complete, and where it can be cut if it must be parsed in pieces. */
export type TakeBody = (bytes: Buffer, cuts?: ArrayCuts) => void;

/** The room of a body while it arrives. */
export type PartKeeper = {
  /** Called after each chunk with its bytes, and those of the body so far: a refusal if they must not be kept. */
  keepPart(chunk: number, bytes: number): Failure | undefined;
  /** May be called more than once. */
  release(): void;
};

/** Calls `take` or `refuse`, exactly once. */
export function readBody(
  body: RequestBody,
  limits: BodyLimits,
  take: TakeBody,
  refuse: (failure: Failure) => void,
  parts?: PartKeeper,
): void {
  body.readTo(new BoundedSink(limits, take, refuse, parts));
}

class BoundedSink implements BodySink {
  readonly #max: number;
  readonly #structure: JsonStructure;
  readonly #take: TakeBody;
  readonly #refuse: (failure: Failure) => void;
  readonly #parts: PartKeeper | undefined;
  readonly #chunks = new ChunkList();
  #done = false;

  constructor(limits: BodyLimits, take: TakeBody, refuse: (failure: Failure) => void, parts: PartKeeper | undefined) {
    this.#max = limits.bytes;
    this.#structure = new JsonStructure(limits);
    this.#take = take;
    this.#refuse = refuse;
    this.#parts = parts;
  }

  chunk(bytes: Buffer): void {
    if (this.#done) return void this.#parts?.keepPart(bytes.length, this.#chunks.bytes); // read and dropped
    if (this.#chunks.bytes + bytes.length > this.#max) this.#fail(tooLarge());
    else if (!this.#structure.add(bytes)) this.#fail(tooComplex());
    else {
      this.#chunks.add(bytes);
      const refusal = this.#parts?.keepPart(bytes.length, this.#chunks.bytes);
      if (!refusal) return;
      this.#chunks.clear();
      this.#fail(refusal);
    }
  }

  end(): void {
    if (this.#done) return;
    this.#done = true;
    this.#take(this.#chunks.joined(), this.#structure.cuts);
  }

  abort(): void {
    this.#fail(fail("malformed_request"));
  }

  /** The response was a time-out: releases the room, which nothing else would. */
  drop(): void {
    this.#done = true;
    this.#chunks.clear();
    this.#parts?.release();
  }

  #fail(failure: Failure): void {
    if (this.#done) return;
    this.#done = true;
    this.#refuse(failure);
  }
}
