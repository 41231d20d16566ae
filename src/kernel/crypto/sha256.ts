// SHA-256 of bytes in plain JavaScript. The message is followed by 0x80, zeros up to a whole block of 64 bytes, and in that
// block's last eight its length in bits.
import { BLOCK, DIGEST, compressBlock, resetDigest } from "./sha256-block.ts";

const BLOCK_BYTES = 64;
/** Where the length stands in the last block. */
const LENGTH_AT = 56;

export function sha256(bytes: Uint8Array): Uint8Array {
  resetDigest();
  const whole = bytes.length - (bytes.length % BLOCK_BYTES);
  for (let at = 0; at < whole; at += BLOCK_BYTES) {
    load(bytes, at, BLOCK_BYTES);
    compressBlock();
  }
  const rest = bytes.length - whole;
  load(bytes, whole, rest);
  BLOCK[rest >> 2] = (BLOCK[rest >> 2] as number) | (0x80 << (24 - 8 * (rest & 3)));
  if (rest >= LENGTH_AT) {
    compressBlock();
    BLOCK.fill(0, 0, 16);
  }
  BLOCK[14] = Math.floor(bytes.length / 2 ** 29);
  BLOCK[15] = bytes.length << 3;
  compressBlock();
  return digestBytes();
}

/** Puts `count` bytes from `at` on into the block, and zeros behind them. */
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
