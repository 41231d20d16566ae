// Reads a request body within its limit, and parses JSON strictly: no NUL, no lone surrogate, no number that loses
// precision, at most 32 levels, and objects without a prototype.
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { fail, failField, type Failure } from "../kernel/errors.ts";

const DEPTH_MAX = 32;

/** Receives a body: its chunks, then either its end or `abort` where the client has disconnected. */
export type BodySink = { chunk(bytes: Buffer): void; end(): void; abort(): void };

/** Drops what it is given. */
export const DROP: BodySink = { chunk() {}, end() {}, abort() {} };

/** A body that can be read once. */
export type RequestBody = {
  /** Aborts the sink where the body was read, discarded or lost before. */
  readTo(sink: BodySink): void;
  /** The response is ready: releases what is buffered and drops what still arrives. */
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

  /** Node itself drains a body that was never read. */
  discard(): void {
    this.#sink = DROP;
  }

  #takeSink(): BodySink {
    const sink = this.#sink ?? DROP;
    this.#sink = DROP;
    return sink;
  }
}

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

/** Refuses a body by its headers, before any of it is read. */
export function checkMedia(headers: IncomingHttpHeaders, max: number): void {
  const { "content-length": length, "content-encoding": encoding, "content-type": type } = headers;
  if (length !== undefined && Number(length) > max) throw tooLarge();
  const empty = length === "0" || (length === undefined && headers["transfer-encoding"] === undefined);
  if (empty) return;
  if (encoding !== undefined && encoding.toLowerCase() !== "identity") {
    throw fail("unsupported_media_type", { headers: { "accept-encoding": "identity" } });
  }
  if (!isJson(type)) throw fail("unsupported_media_type");
}

function isJson(type: string | undefined): boolean {
  if (type === "application/json") return true; // the usual spelling needs no regular expression
  return type !== undefined && /^application\/json\s*(;\s*charset\s*=\s*"?utf-8"?\s*)?$/i.test(type.trim());
}

/** Closes the connection instead of reading an oversized body to its end. */
function tooLarge() {
  return fail("payload_too_large", { headers: { connection: "close" } });
}

/** Calls one of the two, once. */
export function readBody(
  body: RequestBody,
  max: number,
  take: (bytes: Buffer) => void,
  refuse: (failure: Failure) => void,
): void {
  body.readTo(new BoundedSink(max, take, refuse));
}

class BoundedSink implements BodySink {
  readonly #max: number;
  readonly #take: (bytes: Buffer) => void;
  readonly #refuse: (failure: Failure) => void;
  readonly #chunks = new ChunkList();
  #done = false;

  constructor(max: number, take: (bytes: Buffer) => void, refuse: (failure: Failure) => void) {
    this.#max = max;
    this.#take = take;
    this.#refuse = refuse;
  }

  chunk(bytes: Buffer): void {
    if (this.#done) return; // what follows the limit is read and dropped
    if (this.#chunks.bytes + bytes.length > this.#max) this.#fail(tooLarge());
    else this.#chunks.add(bytes);
  }

  end(): void {
    if (this.#done) return;
    this.#done = true;
    this.#take(this.#chunks.joined());
  }

  abort(): void {
    this.#fail(fail("malformed_request"));
  }

  #fail(failure: Failure): void {
    if (this.#done) return;
    this.#done = true;
    this.#refuse(failure);
  }
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The text of a body. An empty one reads as `{}`, so that the schema names what is missing. */
export function textOf(bytes: Uint8Array): string {
  if (bytes.length === 0) return "{}";
  try {
    return decoder.decode(bytes);
  } catch {
    throw fail("invalid_body");
  }
}

/** Unchecked: the value may be used only after `soundJson`, or a fast path that bounds every field. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw fail("invalid_body");
  }
}

/** Applies the strict rules to the value that `text` was parsed to. */
export function soundJson(text: string, value: unknown): unknown {
  // A NUL, a lone surrogate or a disguised name can only come from an escape, and a prototype only from its name.
  const suspect = text.includes("\\u") || text.includes("__proto__");
  return !suspect && isSound(value, 1) ? value : clean(value, "", 1);
}

function isSound(value: unknown, depth: number): boolean {
  if (typeof value === "number") return isExact(value);
  if (typeof value !== "object" || value === null) return true;
  if (depth > DEPTH_MAX) return false;
  if (Array.isArray(value)) {
    for (const item of value) if (!isSound(item, depth + 1)) return false;
    return true;
  }
  for (const name in value) if (!isSound((value as Record<string, unknown>)[name], depth + 1)) return false;
  return true;
}

function isExact(value: number): boolean {
  return Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value));
}

const UNSAFE = /\u0000|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;

export function isCleanText(text: string): boolean {
  return !UNSAFE.test(text);
}

function clean(value: unknown, path: string, depth: number): unknown {
  if (typeof value === "string") {
    if (UNSAFE.test(value)) throw failField("invalid_body", path, "must not hold a NUL or a lone surrogate");
    return value;
  }
  if (typeof value === "number") {
    if (!isExact(value)) throw failField("invalid_body", path, "must be a number that fits in 53 bits");
    return value;
  }
  if (typeof value !== "object" || value === null) return value;
  if (depth > DEPTH_MAX) throw fail("invalid_body");
  if (Array.isArray(value)) return value.map((item, i) => clean(item, `${path}[${i}]`, depth + 1));
  const copy: Record<string, unknown> = Object.create(null) as Record<string, unknown>;
  for (const [name, item] of Object.entries(value)) {
    if (UNSAFE.test(name)) throw failField("invalid_body", path, "must not have a name with a NUL or a lone surrogate");
    copy[name] = clean(item, path === "" ? name : `${path}.${name}`, depth + 1);
  }
  return copy;
}
