// Validates and hashes an API key in one pass: prefix, alphabet and CRC-32 while its characters are packed into words,
// then SHA-256 of its single block (48 characters, 0x80, zeros, 384 as the length in bits). A fast path of
// `parseCredential` and `sha256`; see docs/design/0003-key-format-and-digest.md. The digest is left in `DIGEST`.
// bench: verify/floor-1e5

import { PREFIXES } from "../credentials.ts";
import { CRC_TABLE } from "./crc32.ts";
import { BLOCK as W, compressBlock, resetDigest } from "./sha256-block.ts";

export const KEY_LENGTH = 48;
const KEY_WORDS = KEY_LENGTH / 4;
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

/** Classifies `text` from `offset` to its end, and hashes it when it is an API key. */
export function digestApiKey(text: string, offset: number): 0 | 1 | 2 {
  if (text.length !== offset + KEY_LENGTH) return NOT_A_KEY;
  let all = 0;
  let inBody = 1;
  for (let i = 0; i < KEY_WORDS; i++) {
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
  if (all > 127 || inBody === 0) return NOT_A_KEY;
  const live = W[0] === LIVE.first && W[1] === LIVE.second;
  if (!live && (W[0] !== TEST.first || W[1] !== TEST.second)) return NOT_A_KEY;
  const crc = crcOfBody(live ? LIVE.crc : TEST.crc);
  if (hex16(W[BODY_END] as number) !== crc >>> 16 || hex16(W[BODY_END + 1] as number) !== (crc & 0xffff))
    return NOT_A_KEY;
  W[12] = 0x80000000;
  W[13] = 0;
  W[14] = 0;
  W[15] = KEY_LENGTH * 8;
  resetDigest();
  compressBlock();
  return live ? LIVE_KEY : TEST_KEY;
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
  let crc = start;
  for (let i = 2; i < BODY_END; i++) {
    const w = W[i] as number;
    crc =
      (CRC3[(crc ^ (w >>> 24)) & 255] as number) ^
      (CRC2[((crc >>> 8) ^ (w >>> 16)) & 255] as number) ^
      (CRC1[((crc >>> 16) ^ (w >>> 8)) & 255] as number) ^
      (CRC0[((crc >>> 24) ^ w) & 255] as number);
  }
  return ~crc;
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
