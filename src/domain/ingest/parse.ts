// Parses a batch: a small one at once, a large one in pieces of its events. JSON.parse takes microseconds for each name
// of an object of a new shape, so that a batch of them could hold the event loop for most of a second.
import { isAscii, isUtf8 } from "node:buffer";
import { randomUUID } from "node:crypto";
import { isCleanValue, requireCleanTexts, requireCleanValue } from "../../kernel/text/clean-text.ts";
import { fail, Failure } from "../../kernel/errors.ts";
import type { ArrayCuts, RawBody } from "./raw-body.ts";
import { usedFields } from "./events.ts";

/** Parsed at once where its long array is not that of the events. */
const SMALL_BYTES = 64 * 1024;

/** `value` is undefined for invalid JSON; `requireClean` fails if a text of it could not be stored. */
export type ParsedBatch = { value: unknown; requireClean: () => void };

const INVALID: ParsedBatch = { value: undefined, requireClean() {} };

export function parseBatch(bytes: Buffer): ParsedBatch {
  const encoding = encodingOf(bytes);
  if (!encoding) return INVALID;
  try {
    const text = bytes.toString(encoding);
    const value: unknown = JSON.parse(text);
    return { value, requireClean: () => requireCleanTexts(text, value) };
  } catch {
    return INVALID;
  }
}

/** The same result, but with only the number of events if there are more than `eventsMax`. */
export async function parseInPieces(
  bytes: Buffer,
  { cuts, runPiece }: NonNullable<RawBody["pieces"]>,
  eventsMax: number,
): Promise<ParsedBatch> {
  const encoding = encodingOf(bytes);
  if (!encoding) return INVALID;
  try {
    const pieces = new Pieces((start, end) => bytes.toString(encoding, start, end), cuts, eventsMax);
    while (!(await runPiece((ms) => pieces.parseSome(ms))));
    return pieces.result();
  } catch (error) {
    if (error instanceof SyntaxError) return INVALID;
    const isOther = error instanceof Failure && error.failure === "body_too_complex";
    if (isOther && bytes.length <= SMALL_BYTES) return parseBatch(bytes);
    throw error;
  }
}

/** ASCII is decoded fastest as Latin-1. Null for bytes that are no text. bench: ingest/batch */
function encodingOf(bytes: Buffer): "latin1" | "utf8" | null {
  if (isAscii(bytes)) return "latin1";
  return isUtf8(bytes) ? "utf8" : null;
}

type TextOf = (start: number, end?: number) => string;

class Pieces {
  readonly #textOf: TextOf;
  readonly #eventsMax: number;
  /** The offsets of the array's start, of its cuts and of its end. */
  readonly #bounds: readonly number[];
  /** The text of the batch without its events. */
  readonly #head: string;
  readonly #placeholder = randomUUID();
  #batch: Record<string, unknown> | undefined;
  #next = 0;
  #count = 0;
  #events: unknown[] = [];
  /** How many of the events have only the fields that are used. */
  #reduced = 0;
  /** The first event with a text that cannot be stored, at its index. */
  #unclean: unknown[] | undefined;

  constructor(textOf: TextOf, { start, commas, end }: ArrayCuts, eventsMax: number) {
    if (end === undefined) throw new SyntaxError("the array does not end");
    this.#textOf = textOf;
    this.#eventsMax = eventsMax;
    this.#bounds = [start, ...commas, end];
    this.#head = `${textOf(0, start)}"${this.#placeholder}"${textOf(end + 1)}`;
  }

  /**
   * Whether nothing is left. Events that wait for another turn lose their unknown fields, which may take much memory.
   */
  parseSome(ms: number): boolean {
    const until = performance.now() + ms;
    this.#batch ??= this.#parseHead();
    const count = this.#bounds.length - 1;
    while (this.#next < count && performance.now() < until) this.#parsePiece(this.#next++, count);
    if (this.#next === count) return true;
    for (; this.#reduced < this.#events.length; this.#reduced++)
      this.#events[this.#reduced] = usedFields(this.#events[this.#reduced]);
    return false;
  }

  result(): ParsedBatch {
    const [batch, unclean] = [this.#batch, this.#unclean];
    const events = this.#events;
    events.length = this.#count;
    return {
      value: { ...batch, events },
      requireClean: () =>
        unclean ? requireCleanValue({ ...batch, events: unclean }) : requireCleanTexts(this.#head, batch),
    };
  }

  /** Its `events` are the array that is cut, unless that is the array of another field or the field is repeated. */
  #parseHead(): Record<string, unknown> {
    const batch = JSON.parse(this.#head) as Record<string, unknown> | null;
    if (batch?.events !== this.#placeholder) throw fail("body_too_complex");
    return batch;
  }

  #parsePiece(i: number, count: number): void {
    const [before, after] = this.#bounds.slice(i, i + 2) as [number, number];
    // The last piece has the bracket that was sent, which may be of the other kind.
    const text = i + 1 < count ? `[${this.#textOf(before + 1, after)}]` : `[${this.#textOf(before + 1, after + 1)}`;
    const events = JSON.parse(text) as unknown[];
    if (events.length === 0) throw new SyntaxError("a comma without an event");
    if (!this.#unclean && text.includes("\\u")) this.#findUnclean(events);
    this.#count += events.length;
    if (this.#count > this.#eventsMax) this.#events = [];
    else for (const event of events) this.#events.push(event);
  }

  #findUnclean(events: readonly unknown[]): void {
    const i = events.findIndex((event) => !isCleanValue(event));
    if (i < 0) return;
    this.#unclean = [];
    this.#unclean[this.#count + i] = events[i];
  }
}
