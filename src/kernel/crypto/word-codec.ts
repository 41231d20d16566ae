// Hex digests and UUIDs as 32-bit words, the form in which the key table stores them. The decoders return false for
// malformed input, and may have written part of the output by then. No array literals here: destructuring them doubles
// the time to load a snapshot. bench: verify/load

const DIGITS = "0123456789abcdef";
const VALUES = Int8Array.from({ length: 128 }, (_, c) => DIGITS.indexOf(String.fromCharCode(c).toLowerCase()));
const CODES = Uint8Array.from(DIGITS, (digit) => digit.charCodeAt(0));
const DASH = 45;
/** Offsets of the eight groups of four digits between the dashes. */
const UUID_GROUPS = Uint8Array.of(0, 4, 9, 14, 19, 24, 28, 32);

/** 64 hex digits into eight words. */
export function digestToWords(text: unknown, into: Int32Array, at: number): boolean {
  if (typeof text !== "string" || text.length !== 64) return false;
  let bad = 0;
  for (let i = 0; i < 8; i++) {
    const high = hex16(text, 8 * i);
    const low = hex16(text, 8 * i + 4);
    bad |= high | low;
    into[at + i] = (high << 16) | low;
  }
  return bad >= 0;
}

/** 8-4-4-4-12 hex digits into four words. */
export function uuidToWords(text: unknown, into: Int32Array, at: number): boolean {
  if (typeof text !== "string" || text.length !== 36) return false;
  if (text.charCodeAt(8) !== DASH || text.charCodeAt(13) !== DASH) return false;
  if (text.charCodeAt(18) !== DASH || text.charCodeAt(23) !== DASH) return false;
  let bad = 0;
  for (let i = 0; i < 4; i++) {
    const high = hex16(text, UUID_GROUPS[2 * i] as number);
    const low = hex16(text, UUID_GROUPS[2 * i + 1] as number);
    bad |= high | low;
    into[at + i] = (high << 16) | low;
  }
  return bad >= 0;
}

/** Four words as a lower-case UUID, built in one call. bench: verify/floor-1e5 */
export function wordsToUuid(words: Int32Array, at: number): string {
  const a = words[at] as number;
  const b = words[at + 1] as number;
  const c = words[at + 2] as number;
  const d = words[at + 3] as number;
  // biome-ignore format: one group of the UUID a line
  return String.fromCharCode(
    hex(a >>> 28), hex(a >>> 24), hex(a >>> 20), hex(a >>> 16), hex(a >>> 12), hex(a >>> 8), hex(a >>> 4), hex(a), DASH,
    hex(b >>> 28), hex(b >>> 24), hex(b >>> 20), hex(b >>> 16), DASH,
    hex(b >>> 12), hex(b >>> 8), hex(b >>> 4), hex(b), DASH,
    hex(c >>> 28), hex(c >>> 24), hex(c >>> 20), hex(c >>> 16), DASH,
    hex(c >>> 12), hex(c >>> 8), hex(c >>> 4), hex(c),
    hex(d >>> 28), hex(d >>> 24), hex(d >>> 20), hex(d >>> 16), hex(d >>> 12), hex(d >>> 8), hex(d >>> 4), hex(d),
  );
}

function hex(value: number): number {
  return CODES[value & 15] as number;
}

/** Four hex digits; negative when one is invalid, because -1 keeps its sign through the shifts. */
function hex16(text: string, at: number): number {
  const a = text.charCodeAt(at);
  const b = text.charCodeAt(at + 1);
  const c = text.charCodeAt(at + 2);
  const d = text.charCodeAt(at + 3);
  if ((a | b | c | d) > 127) return -1;
  return (
    ((VALUES[a] as number) << 12) | ((VALUES[b] as number) << 8) | ((VALUES[c] as number) << 4) | (VALUES[d] as number)
  );
}
