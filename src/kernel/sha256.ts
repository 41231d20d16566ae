// SHA-256 (FIPS 180-4) in plain JavaScript, synchronous, for places without node:crypto.
// The message is padded to whole 64-byte blocks: its bytes, 0x80, zeros, then its length in bits as 8 big-endian bytes.
// The scratch arrays are shared between calls, which is safe only because nothing here awaits.

import { toHex, utf8 } from "./bytes.ts";

const K = Int32Array.of(
  0x428a2f98,
  0x71374491,
  0xb5c0fbcf,
  0xe9b5dba5,
  0x3956c25b,
  0x59f111f1,
  0x923f82a4,
  0xab1c5ed5,
  0xd807aa98,
  0x12835b01,
  0x243185be,
  0x550c7dc3,
  0x72be5d74,
  0x80deb1fe,
  0x9bdc06a7,
  0xc19bf174,
  0xe49b69c1,
  0xefbe4786,
  0x0fc19dc6,
  0x240ca1cc,
  0x2de92c6f,
  0x4a7484aa,
  0x5cb0a9dc,
  0x76f988da,
  0x983e5152,
  0xa831c66d,
  0xb00327c8,
  0xbf597fc7,
  0xc6e00bf3,
  0xd5a79147,
  0x06ca6351,
  0x14292967,
  0x27b70a85,
  0x2e1b2138,
  0x4d2c6dfc,
  0x53380d13,
  0x650a7354,
  0x766a0abb,
  0x81c2c92e,
  0x92722c85,
  0xa2bfe8a1,
  0xa81a664b,
  0xc24b8b70,
  0xc76c51a3,
  0xd192e819,
  0xd6990624,
  0xf40e3585,
  0x106aa070,
  0x19a4c116,
  0x1e376c08,
  0x2748774c,
  0x34b0bcb5,
  0x391c0cb3,
  0x4ed8aa4a,
  0x5b9cca4f,
  0x682e6ff3,
  0x748f82ee,
  0x78a5636f,
  0x84c87814,
  0x8cc70208,
  0x90befffa,
  0xa4506ceb,
  0xbef9a3f7,
  0xc67178f2,
);
const START = Int32Array.of(
  0x6a09e667,
  0xbb67ae85,
  0x3c6ef372,
  0xa54ff53a,
  0x510e527f,
  0x9b05688c,
  0x1f83d9ab,
  0x5be0cd19,
);
const W = new Int32Array(64);
const state = new Int32Array(8);

export function sha256(bytes: Uint8Array): Uint8Array {
  const blocks = new DataView(pad(bytes).buffer);
  state.set(START);
  for (let at = 0; at < blocks.byteLength; at += 64) compress(blocks, at);
  const digest = new DataView(new ArrayBuffer(32));
  for (const [i, word] of state.entries()) digest.setInt32(4 * i, word);
  return new Uint8Array(digest.buffer);
}

/** Lower-case hex. Text is hashed as UTF-8. */
export function sha256Hex(input: string | Uint8Array): string {
  return toHex(sha256(typeof input === "string" ? utf8(input) : input));
}

function pad(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const padded = new Uint8Array(64 * Math.ceil((bytes.length + 9) / 64));
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  new DataView(padded.buffer).setBigUint64(padded.length - 8, BigInt(bytes.length) * 8n);
  return padded;
}

function compress(blocks: DataView, at: number): void {
  for (let i = 0; i < 16; i++) W[i] = blocks.getInt32(at + 4 * i);
  for (let i = 16; i < 64; i++) {
    const w2 = word(W, i - 2);
    const w15 = word(W, i - 15);
    const s1 = rotr(w2, 17) ^ rotr(w2, 19) ^ (w2 >>> 10);
    const s0 = rotr(w15, 7) ^ rotr(w15, 18) ^ (w15 >>> 3);
    W[i] = s1 + word(W, i - 7) + s0 + word(W, i - 16);
  }
  let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = state;
  for (let i = 0; i < 64; i++) {
    const s1 = rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25);
    const t1 = (h + s1 + ((e & f) ^ (~e & g)) + word(K, i) + word(W, i)) | 0;
    const s0 = rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22);
    const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + t1) | 0;
    d = c;
    c = b;
    b = a;
    a = (t1 + t2) | 0;
  }
  const sums = [a, b, c, d, e, f, g, h];
  for (let i = 0; i < 8; i++) state[i] = word(state, i) + (sums[i] ?? 0);
}

/** Every index here is within bounds, which the type checker cannot know. */
function word(words: Int32Array, i: number): number {
  return words[i] as number;
}

function rotr(value: number, by: number): number {
  return (value >>> by) | (value << (32 - by));
}
