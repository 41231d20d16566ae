// Validates and hashes an API key in one pass: prefix, alphabet and CRC-32 while its characters are packed into words,
// then SHA-256 of its single block (48 characters, 0x80, zeros, 384 as the length in bits; up to 55 characters with
// another prefix than `kr`). A fast path of `parseCredential` and `sha256`; see
// docs/design/0003-key-format-and-digest.md. The digest is left in `DIGEST`. bench: verify/floor-1e5

import { PREFIXES } from "../credentials.ts";
import { OWN_PREFIX } from "../key-prefixes.ts";
import { CRC_TABLE } from "./crc32.ts";
import { BLOCK as W, compressBlock, resetDigest } from "./sha256-block.ts";

const KEY_LENGTH = 48;
const CRC_CHARS = 8;
/** Body and CRC. */
const SECRET_CHARS = 32 + CRC_CHARS;
const BODY_END = 10;

// CRC-32 by four bytes at a time: table n is for a byte followed by n more bytes.
const [CRC0, CRC1, CRC2, CRC3] = crcTables();
const IN_BODY = Uint8Array.from({ length: 128 }, (_, c) => (/[A-Za-z0-9_-]/.test(String.fromCharCode(c)) ? 1 : 0));
// -1 keeps its sign through the shifts of `hex16`, so a group with a bad digit is always negative.
const HEX = Int8Array.from({ length: 128 }, (_, c) => "0123456789abcdef".indexOf(String.fromCharCode(c)));

const LIVE = prefixWords(PREFIXES.api_key.live);
const TEST = prefixWords(PREFIXES.api_key.test);

export const NOT_A_KEY = 0;
export const LIVE_KEY = 1;
export const TEST_KEY = 2;

/** How keys of one prefix and environment begin: as text, and as words, of which the last is compared under a mask. */
type Start = { text: string; w0: number; w1: number; w2: number; w3: number; masks: readonly number[]; length: number };

/** Key prefixes, prepared for `digestApiKey`. */
export class KeyFormats {
  readonly prefixes: readonly string[];
  /** Whether keys of ours are among them. */
  readonly own: boolean;
  /** The other prefixes: first the live form of each, then the test form. */
  readonly others: readonly { readonly live: Start; readonly test: Start }[];
  /** How the last key began that was digested, if it is not one of ours. Caution: read it before the next call. */
  matched = "";

  constructor(prefixes: readonly string[]) {
    this.prefixes = Object.freeze([...prefixes]);
    this.own = prefixes.includes(OWN_PREFIX);
    this.others = prefixes
      .filter((prefix) => prefix !== OWN_PREFIX)
      .map((prefix) => ({ live: startOf(`${prefix}_live_`), test: startOf(`${prefix}_test_`) }));
  }

  /** Whether the text at `offset` begins with one of the prefixes and an underscore. */
  begin(text: string, offset: number): boolean {
    return this.prefixes.some((prefix) => text.startsWith(prefix, offset) && text[offset + prefix.length] === "_");
  }
}

export const OWN_FORMATS = new KeyFormats([OWN_PREFIX]);

/** Classifies `text` from `offset` to its end, and hashes it when it is an API key with one of the prefixes. */
export function digestApiKey(text: string, offset: number, formats: KeyFormats = OWN_FORMATS): 0 | 1 | 2 {
  const kind = formats.own ? digestOwnKey(text, offset) : NOT_A_KEY;
  return kind === NOT_A_KEY && formats.others.length > 0 ? digestChosenKey(text, offset, formats) : kind;
}

function digestOwnKey(text: string, offset: number): 0 | 1 | 2 {
  if (text.length !== offset + KEY_LENGTH || !packBody(text, offset, KEY_LENGTH)) return NOT_A_KEY;
  const live = W[0] === LIVE.first && W[1] === LIVE.second;
  if (!live && (W[0] !== TEST.first || W[1] !== TEST.second)) return NOT_A_KEY;
  const crc = crcOfBody(live ? LIVE.crc : TEST.crc);
  if (hex16(W[BODY_END] as number) !== crc >>> 16 || hex16(W[BODY_END + 1] as number) !== (crc & 0xffff))
    return NOT_A_KEY;
  W[12] = 0x80000000;
  W[15] = KEY_LENGTH * 8;
  resetDigest();
  compressBlock();
  return live ? LIVE_KEY : TEST_KEY;
}

/** The same for the other prefixes, whose keys have other lengths. */
function digestChosenKey(text: string, offset: number, formats: KeyFormats): 0 | 1 | 2 {
  const { others } = formats;
  const length = text.length - offset;
  if (length < KEY_LENGTH || length > SINGLE_BLOCK_BYTES || !packBody(text, offset, length)) return NOT_A_KEY;
  for (let i = 0; i < others.length; i++) {
    const { live, test } = others[i] as { live: Start; test: Start };
    if (live.length + SECRET_CHARS !== length) continue;
    const isLive = beginsWith(live);
    if (!isLive && !beginsWith(test)) continue;
    if (!hasCrc(length)) return NOT_A_KEY;
    formats.matched = isLive ? live.text : test.text;
    W[length >> 2] = (W[length >> 2] as number) | (0x80 << (24 - 8 * (length & 3)));
    W[15] = length * 8;
    resetDigest();
    compressBlock();
    return isLive ? LIVE_KEY : TEST_KEY;
  }
  return NOT_A_KEY;
}

/** Packs the characters into words, zeros after them; false when one is not of the alphabet. */
function packBody(text: string, offset: number, length: number): boolean {
  let all = 0;
  let inBody = 1;
  const full = length >> 2;
  for (let i = 0; i < full; i++) {
    const at = offset + 4 * i;
    const a = text.charCodeAt(at);
    const b = text.charCodeAt(at + 1);
    const c = text.charCodeAt(at + 2);
    const d = text.charCodeAt(at + 3);
    all |= a | b | c | d;
    inBody &=
      (IN_BODY[a & 127] as number) &
      (IN_BODY[b & 127] as number) &
      (IN_BODY[c & 127] as number) &
      (IN_BODY[d & 127] as number);
    W[i] = (a << 24) | (b << 16) | (c << 8) | d;
  }
  for (let i = full; i < 16; i++) W[i] = 0;
  for (let i = full * 4; i < length; i++) {
    const c = text.charCodeAt(offset + i);
    all |= c;
    inBody &= IN_BODY[c & 127] as number;
    W[full] = (W[full] as number) | (c << (24 - 8 * (i & 3)));
  }
  return all <= 127 && inBody === 1;
}

/** Its 8 to 15 characters are in four words. */
function beginsWith({ w0, w1, w2, w3, masks }: Start): boolean {
  if (W[0] !== w0 || W[1] !== w1) return false;
  return ((W[2] as number) & (masks[0] as number)) === w2 && ((W[3] as number) & (masks[1] as number)) === w3;
}

/** Whether the last eight characters are the CRC of the packed ones before them. */
function hasCrc(length: number): boolean {
  const end = length - CRC_CHARS;
  let crc = crcOfWords(-1, 0, end >> 2);
  for (let i = end & ~3; i < end; i++) {
    const byte = (W[i >> 2] as number) >>> (24 - 8 * (i & 3));
    crc = (crc >>> 8) ^ (CRC0[(crc ^ byte) & 255] as number);
  }
  crc = ~crc;
  return hex16(wordAt(end)) === crc >>> 16 && hex16(wordAt(end + 4)) === (crc & 0xffff);
}

/** The four packed characters at any place. */
function wordAt(at: number): number {
  const first = W[at >> 2] as number;
  const shift = 8 * (at & 3);
  return shift === 0 ? first : (first << shift) | ((W[(at >> 2) + 1] as number) >>> (32 - shift));
}

function startOf(text: string): Start {
  const { length } = text;
  const words = new Int32Array(4);
  for (let i = 0; i < length; i++)
    words[i >> 2] = (words[i >> 2] as number) | (text.charCodeAt(i) << (24 - 8 * (i & 3)));
  const maskOf = (chars: number): number => (chars <= 0 ? 0 : -1 << (32 - 8 * Math.min(chars, 4)));
  const [w0 = 0, w1 = 0, w2 = 0, w3 = 0] = words;
  return { text, w0, w1, w2, w3, masks: [maskOf(length - 8), maskOf(length - 12)], length };
}

/** The longest input that fits one block with its padding. */
const SINGLE_BLOCK_BYTES = 55;

/** Hashes ASCII text that fits one block; false for any other text. */
export function digestSingleBlock(text: string): boolean {
  const { length } = text;
  if (length > SINGLE_BLOCK_BYTES) return false;
  for (let i = 0; i < 15; i++) W[i] = 0;
  let all = 0;
  for (let i = 0; i < length; i++) {
    const c = text.charCodeAt(i);
    all |= c;
    W[i >> 2] = (W[i >> 2] as number) | (c << (24 - 8 * (i & 3)));
  }
  if (all > 127) return false;
  W[length >> 2] = (W[length >> 2] as number) | (0x80 << (24 - 8 * (length & 3)));
  W[15] = length * 8;
  resetDigest();
  compressBlock();
  return true;
}

function crcOfBody(start: number): number {
  return ~crcOfWords(start, 2, BODY_END);
}

/** Continues a CRC over the packed words from `from` up to `to`. */
function crcOfWords(start: number, from: number, to: number): number {
  let crc = start;
  for (let i = from; i < to; i++) {
    const w = W[i] as number;
    crc =
      (CRC3[(crc ^ (w >>> 24)) & 255] as number) ^
      (CRC2[((crc >>> 8) ^ (w >>> 16)) & 255] as number) ^
      (CRC1[((crc >>> 16) ^ (w >>> 8)) & 255] as number) ^
      (CRC0[((crc >>> 24) ^ w) & 255] as number);
  }
  return crc;
}

/** Four lower-case hex characters as a number; negative when one is not. */
function hex16(w: number): number {
  return (
    ((HEX[(w >>> 24) & 127] as number) << 12) |
    ((HEX[(w >>> 16) & 127] as number) << 8) |
    ((HEX[(w >>> 8) & 127] as number) << 4) |
    (HEX[w & 127] as number)
  );
}

function crcTables(): [Int32Array, Int32Array, Int32Array, Int32Array] {
  const one = CRC_TABLE;
  const shifted = (table: Int32Array) => table.map((crc) => (crc >>> 8) ^ (one[crc & 255] as number));
  const two = shifted(one);
  const three = shifted(two);
  return [one, two, three, shifted(three)];
}

function prefixWords(prefix: string): { first: number; second: number; crc: number } {
  let crc = -1;
  const words = [0, 0];
  for (let i = 0; i < prefix.length; i++) {
    const c = prefix.charCodeAt(i);
    crc = (crc >>> 8) ^ (CRC0[(crc ^ c) & 255] as number);
    words[i >> 2] = ((words[i >> 2] ?? 0) << 8) | c;
  }
  return { first: words[0] ?? 0, second: words[1] ?? 0, crc };
}
