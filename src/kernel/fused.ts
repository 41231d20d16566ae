// An API key's text checked and hashed in one go: prefix, alphabet and CRC-32 while its characters become words, then
// SHA-256 of its single block (48 characters, 0x80, zeros, 384 as the length in bits) with four rounds a turn.
// Other short texts are hashed by the same rounds. The digest is left in `keyDigest`, overwritten by the next call: use it
// before anything awaits.

import { PREFIXES } from "./keyformat.ts";

export const KEY_CHARS = 48;
const KEY_WORDS = KEY_CHARS / 4;
const BODY_END = 10;

/** SHA-256 of the last text that was accepted here, as eight big-endian words. */
export const keyDigest = new Int32Array(8);

// One block and its schedule.
const W = new Int32Array(64);

const K = roundConstants();
const H0 = 0x6a09e667;
const H1 = 0xbb67ae85 | 0;
const H2 = 0x3c6ef372;
const H3 = 0xa54ff53a | 0;
const H4 = 0x510e527f;
const H5 = 0x9b05688c | 0;
const H6 = 0x1f83d9ab;
const H7 = 0x5be0cd19;

// CRC-32 four bytes a step: table n answers for a byte with n more bytes behind it.
const [CRC0, CRC1, CRC2, CRC3] = crcTables();
const IN_BODY = Uint8Array.from({ length: 128 }, (_, c) => (/[A-Za-z0-9_-]/.test(String.fromCharCode(c)) ? 1 : 0));
// -1 keeps its sign through the shifts of `hex16`, so one bad digit can never look like a good group of four.
const HEX = Int8Array.from({ length: 128 }, (_, c) => "0123456789abcdef".indexOf(String.fromCharCode(c)));

const LIVE = prefixOf(PREFIXES.api_key.live);
const TEST = prefixOf(PREFIXES.api_key.test);

export const NOT_A_KEY = 0;
export const LIVE_KEY = 1;
export const TEST_KEY = 2;

/** What stands in `text` from `offset` to its end: 0 no API key, 1 a live one, 2 a test one (and its hash is taken). */
export function digestKey(text: string, offset: number): 0 | 1 | 2 {
  if (text.length !== offset + KEY_CHARS) return NOT_A_KEY;
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
  W[15] = KEY_CHARS * 8;
  expand();
  compress();
  return live ? LIVE_KEY : TEST_KEY;
}

/** The most bytes that a single block holds beside its padding. */
const BLOCK_BYTES = 55;

/** Any text of ASCII that fits in one block is hashed; false where it is another one. */
export function digestShort(text: string): boolean {
  const { length } = text;
  if (length > BLOCK_BYTES) return false;
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
  expand();
  compress();
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

function expand(): void {
  for (let i = 16; i < 64; i++) {
    const x = W[i - 15] as number;
    const y = W[i - 2] as number;
    const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
    const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
    W[i] = (W[i - 16] as number) + (W[i - 7] as number) + s0 + s1;
  }
}

// Written out on purpose: helpers for the sums and choices fall outside what V8 inlines and cost twice the time.
function compress(): void {
  let a = H0;
  let b = H1;
  let c = H2;
  let d = H3;
  let e = H4;
  let f = H5;
  let g = H6;
  let h = H7;
  for (let i = 0; i < 64; i += 4) {
    let s: number;
    let t: number;
    s = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
    t = (h + s + (g ^ (e & (f ^ g))) + (K[i] as number) + (W[i] as number)) | 0;
    s = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
    d = (d + t) | 0;
    h = (t + s + ((a & b) | (c & (a | b)))) | 0;
    s = ((d >>> 6) | (d << 26)) ^ ((d >>> 11) | (d << 21)) ^ ((d >>> 25) | (d << 7));
    t = (g + s + (f ^ (d & (e ^ f))) + (K[i + 1] as number) + (W[i + 1] as number)) | 0;
    s = ((h >>> 2) | (h << 30)) ^ ((h >>> 13) | (h << 19)) ^ ((h >>> 22) | (h << 10));
    c = (c + t) | 0;
    g = (t + s + ((h & a) | (b & (h | a)))) | 0;
    s = ((c >>> 6) | (c << 26)) ^ ((c >>> 11) | (c << 21)) ^ ((c >>> 25) | (c << 7));
    t = (f + s + (e ^ (c & (d ^ e))) + (K[i + 2] as number) + (W[i + 2] as number)) | 0;
    s = ((g >>> 2) | (g << 30)) ^ ((g >>> 13) | (g << 19)) ^ ((g >>> 22) | (g << 10));
    b = (b + t) | 0;
    f = (t + s + ((g & h) | (a & (g | h)))) | 0;
    s = ((b >>> 6) | (b << 26)) ^ ((b >>> 11) | (b << 21)) ^ ((b >>> 25) | (b << 7));
    t = (e + s + (d ^ (b & (c ^ d))) + (K[i + 3] as number) + (W[i + 3] as number)) | 0;
    s = ((f >>> 2) | (f << 30)) ^ ((f >>> 13) | (f << 19)) ^ ((f >>> 22) | (f << 10));
    a = (a + t) | 0;
    e = (t + s + ((f & g) | (h & (f | g)))) | 0;
    // Four rounds moved the letters by four places: swap the halves back.
    s = a;
    t = b;
    a = e;
    b = f;
    e = s;
    f = t;
    s = c;
    t = d;
    c = g;
    d = h;
    g = s;
    h = t;
  }
  keep(a, b, c, d, e, f, g, h);
}

function keep(a: number, b: number, c: number, d: number, e: number, f: number, g: number, h: number): void {
  keyDigest[0] = a + H0;
  keyDigest[1] = b + H1;
  keyDigest[2] = c + H2;
  keyDigest[3] = d + H3;
  keyDigest[4] = e + H4;
  keyDigest[5] = f + H5;
  keyDigest[6] = g + H6;
  keyDigest[7] = h + H7;
}

/** FIPS 180-4 §4.2.2: the first 32 bits of the fractions of the cube roots of the first 64 primes. */
function roundConstants(): Int32Array {
  const primes: number[] = [];
  for (let n = 2; primes.length < 64; n++) if (primes.every((prime) => n % prime !== 0)) primes.push(n);
  return Int32Array.from(primes, (prime) => Math.floor((Math.cbrt(prime) % 1) * 2 ** 32));
}

function crcTables(): [Int32Array, Int32Array, Int32Array, Int32Array] {
  const behind = (table: Int32Array) => table.map((crc) => (crc >>> 8) ^ (one[crc & 255] as number));
  const one = Int32Array.from({ length: 256 }, (_, byte) => {
    let crc = byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
    return crc;
  });
  const two = behind(one);
  const three = behind(two);
  return [one, two, three, behind(three)];
}

function prefixOf(prefix: string): { first: number; second: number; crc: number } {
  let crc = -1;
  const words = [0, 0];
  for (let i = 0; i < prefix.length; i++) {
    const c = prefix.charCodeAt(i);
    crc = (crc >>> 8) ^ (CRC0[(crc ^ c) & 255] as number);
    words[i >> 2] = ((words[i >> 2] ?? 0) << 8) | c;
  }
  return { first: words[0] ?? 0, second: words[1] ?? 0, crc };
}
