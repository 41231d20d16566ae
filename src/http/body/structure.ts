// Measures JSON before it is parsed: parsing deep or wide JSON blocks the event loop for seconds, and costs far more
// memory than its text. Only what precedes the first syntax error needs to be right, as parsing stops there.
import type { ArrayCuts } from "../../domain/ingest/raw-body.ts";
import { ArrayCutter, UNCUT, type Cutter } from "./array-cutter.ts";

const DEPTH_MAX = 32;
/** The depth within an array that is a field of the body. */
const ARRAY_DEPTH = 2;

const OPENING = 1;
const CLOSING = 2;
const SEPARATOR = 3;
const QUOTE = 34;
const BACKSLASH = 92;
const COMMA = 44;
const OPEN_ARRAY = 91;

/** The kind of each byte; 0 for bytes without structural meaning. */
const KINDS = new Uint8Array(256);
for (const byte of Buffer.from("[{")) KINDS[byte] = OPENING;
for (const byte of Buffer.from("]}")) KINDS[byte] = CLOSING;
for (const byte of Buffer.from(",:")) KINDS[byte] = SEPARATOR;

/**
 * The high bit of the first byte of `word` that is a quote or a backslash, and perhaps of later ones; 0 if there is
 * none. Such a byte is zero in `word` xor four of its kind.
 */
function stringEnds(word: number): number {
  const quotes = word ^ 0x22222222;
  const backslashes = word ^ 0x5c5c5c5c;
  return (((quotes - 0x01010101) & ~quotes) | ((backslashes - 0x01010101) & ~backslashes)) & 0x80808080;
}

/** The index of the first of four bytes whose high bit is set. */
function firstByte(highBits: number): number {
  return (31 - Math.clz32(highBits & -highBits)) >> 3;
}

export type StructureLimits = {
  /** Maximum number of structural characters. */
  readonly structure: number;
  /** Whether a long array is parsed in pieces. */
  readonly inPieces?: boolean;
};

export class JsonStructure {
  /** How many structural characters may still come. */
  #left: number;
  #depth = 0;
  #inString = false;
  /** The last byte was a backslash that escapes the next one. */
  #escaped = false;
  /** How many bytes have been added. */
  #offset = 0;
  readonly #cutter: Cutter;

  constructor({ structure, inPieces = false }: StructureLimits) {
    this.#left = structure;
    this.#cutter = inPieces ? new ArrayCutter(structure) : UNCUT;
  }

  /** Where the body can be cut; undefined if it is parsed at once. */
  get cuts(): ArrayCuts | undefined {
    return this.#cutter.cuts;
  }

  /**
   * False once the JSON is too deep or has too many structural characters. Every byte counts here, so that strings are
   * not skipped by a function of its own, which takes a third more. bench: ingest/batch
   */
  add(bytes: Uint8Array): boolean {
    const cutter = this.#cutter;
    let left = this.#left;
    let { floor, cutBelow } = cutter;
    let depth = this.#depth;
    let inString = this.#inString;
    let at = this.#escaped ? 1 : 0;
    const { length } = bytes;
    const words = new DataView(bytes.buffer, bytes.byteOffset, length);
    while (at < length) {
      if (inString) {
        // Most of a batch is in strings: four bytes at a time take less than one by one. bench: ingest/batch
        let ends = 0;
        while (at + 4 <= length && (ends = stringEnds(words.getInt32(at, true))) === 0) at += 4;
        if (ends !== 0) at += firstByte(ends);
        else while (at < length && bytes[at] !== QUOTE && bytes[at] !== BACKSLASH) at++;
        if (at === length) break; // the string continues in the next piece
        if (bytes[at++] === BACKSLASH) {
          at++;
          continue;
        }
        inString = false;
      }
      while (at < length) {
        const byte = bytes[at++] as number;
        if (byte === QUOTE) {
          inString = true;
          break;
        }
        const kind = KINDS[byte];
        if (kind === 0) continue;
        if (--left < floor) return false;
        if (kind === SEPARATOR) {
          if (left >= cutBelow || depth !== ARRAY_DEPTH || byte !== COMMA) continue;
          cutter.cut(this.#offset + at - 1, left);
          ({ floor, cutBelow } = cutter);
        } else if (kind === OPENING) {
          if (++depth > DEPTH_MAX) return false;
          if (depth === ARRAY_DEPTH && byte === OPEN_ARRAY) cutter.open(this.#offset + at - 1, left);
        } else if (depth-- === ARRAY_DEPTH) {
          cutter.close(this.#offset + at - 1, left);
          ({ floor, cutBelow } = cutter);
        }
      }
    }
    this.#left = left;
    this.#depth = depth;
    this.#inString = inString;
    this.#escaped = at > length;
    this.#offset += length;
    return true;
  }
}
