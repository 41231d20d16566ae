// SHA-256 of bytes in plain JavaScript. Padding: 0x80, zeros, and the length in bits in the last eight bytes of the
// last 64-byte block.
import { BLOCK, DIGEST, compressBlock, resetDigest } from "./sha256-block.ts";

const BLOCK_BYTES = 64;
/** Offset of the length in the last block. */
const LENGTH_AT = 56;

export function sha256(bytes: Uint8Array): Uint8Array {
  resetDigest();
  const whole = bytes.length - (bytes.length % BLOCK_BYTES);
  for (let at = 0; at < whole; at += BLOCK_BYTES) {
    load(bytes, at, BLOCK_BYTES);
    compressBlock();
  }
  const remainder = bytes.length - whole;
  load(bytes, whole, remainder);
  BLOCK[remainder >> 2] = (BLOCK[remainder >> 2] as number) | (0x80 << (24 - 8 * (remainder & 3)));
  if (remainder >= LENGTH_AT) {
    compressBlock();
    BLOCK.fill(0, 0, 16);
  }
  BLOCK[14] = Math.floor(bytes.length / 2 ** 29);
  BLOCK[15] = bytes.length << 3;
  compressBlock();
  return digestBytes();
}

/** Copies `count` bytes from `at` into BLOCK and fills the remainder with zeros. */
function load(bytes: Uint8Array, at: number, count: number): void {
  const words = count >> 2;
  for (let i = 0; i < words; i++) BLOCK[i] = word(bytes, at + 4 * i);
  if (words === 16) return;
  BLOCK.fill(0, words, 16);
  for (let i = 4 * words; i < count; i++) {
    BLOCK[words] = (BLOCK[words] as number) | ((bytes[at + i] as number) << (24 - 8 * (i & 3)));
  }
}

function word(bytes: Uint8Array, at: number): number {
  const high = ((bytes[at] as number) << 24) | ((bytes[at + 1] as number) << 16);
  return high | ((bytes[at + 2] as number) << 8) | (bytes[at + 3] as number);
}

function digestBytes(): Uint8Array {
  const bytes = new Uint8Array(32);
  for (let i = 0; i < 32; i++) bytes[i] = (DIGEST[i >> 2] as number) >>> (24 - 8 * (i & 3));
  return bytes;
}
