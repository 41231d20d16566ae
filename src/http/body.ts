// Reads a request body within its limit, and parses JSON the strict way: no NUL, no lone surrogate, no number that
// would not survive the round trip, at most 32 levels, and objects without a prototype.
import { isAscii } from "node:buffer";
import type { IncomingMessage } from "node:http";
import { fail, failField, type Failure } from "../kernel/errors.ts";
import { ChunkList } from "./chunks.ts";
import type { FastRequest, BodySink } from "./fast/request.ts";

const DEPTH_MAX = 32;

/** Refuses what cannot be read, before reading it. */
export function checkMedia(message: IncomingMessage, max: number): void {
  const { "content-length": length, "content-encoding": encoding, "content-type": type } = message.headers;
  if (length !== undefined && Number(length) > max) throw tooLarge();
  const empty = length === "0" || (length === undefined && message.headers["transfer-encoding"] === undefined);
  if (empty) return;
  if (encoding !== undefined && encoding.toLowerCase() !== "identity") {
    throw fail("unsupported_media_type", { headers: { "accept-encoding": "identity" } });
  }
  if (!isJson(type)) throw fail("unsupported_media_type");
}

function isJson(type: string | undefined): boolean {
  if (type === "application/json") return true; // how nearly everybody writes it
  return type !== undefined && /^application\/json\s*(;\s*charset\s*=\s*"?utf-8"?\s*)?$/i.test(type.trim());
}

/** The rest of an over-long body is not worth reading: the connection ends with the answer. */
function tooLarge() {
  return fail("payload_too_large", { headers: { connection: "close" } });
}

/** Calls one of the two, once. */
export function readBody(
  request: FastRequest,
  max: number,
  take: (bytes: Buffer) => void,
  refuse: (failure: Failure) => void,
): void {
  request.readTo(new Body(max, take, refuse));
}

class Body implements BodySink {
  readonly #max: number;
  readonly #take: (bytes: Buffer) => void;
  readonly #refuse: (failure: Failure) => void;
  readonly #pieces = new ChunkList();
  #over = false;

  constructor(max: number, take: (bytes: Buffer) => void, refuse: (failure: Failure) => void) {
    this.#max = max;
    this.#take = take;
    this.#refuse = refuse;
  }

  piece(bytes: Buffer): void {
    if (this.#over) return; // what follows an over-long body is read and dropped
    if (this.#pieces.bytes + bytes.length > this.#max) this.#end(tooLarge());
    else this.#pieces.add(bytes);
  }

  end(): void {
    if (this.#over) return;
    this.#over = true;
    this.#take(this.#pieces.joined());
  }

  lost(): void {
    this.#end(fail("malformed_request"));
  }

  #end(failure: Failure): void {
    if (this.#over) return;
    this.#over = true;
    this.#refuse(failure);
  }
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** The text of a body; an absent or empty one reads as `{}`: the schema then says what is missing. */
export function textOf(bytes: Uint8Array): string {
  if (bytes.length === 0) return "{}";
  // Node decodes ASCII fastest as latin1; whatever else is there must be whole UTF-8.
  if (isAscii(bytes)) return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("latin1");
  try {
    return decoder.decode(bytes);
  } catch {
    throw fail("invalid_body");
  }
}

/** Not yet looked at: `soundJson` says whether it may be used. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw fail("invalid_body");
  }
}

/** The value that `text` was parsed to, refused or cleaned where the strict way asks for it. */
export function soundJson(text: string, value: unknown): unknown {
  // A NUL, a lone surrogate or a hidden name can only come from an escape, and a prototype only from its name.
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
