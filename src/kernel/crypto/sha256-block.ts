// The SHA-256 compression function (FIPS 180-4), unrolled to four rounds per iteration. Synchronous: for runtimes
// without node:crypto, and for inputs of one or two blocks, where the call into OpenSSL costs more than the hash.
// Caution: BLOCK and DIGEST are shared by all callers; read the digest before anything awaits.
// bench: verify/floor-1e5

/** The block to compress: sixteen big-endian words, followed by scratch space. */
export const BLOCK = new Int32Array(64);

/** The hash of the blocks compressed since `resetDigest`, as eight big-endian words. */
export const DIGEST = new Int32Array(8);

const W = BLOCK;
const K = roundConstants();

export function resetDigest(): void {
  DIGEST[0] = 0x6a09e667;
  DIGEST[1] = 0xbb67ae85;
  DIGEST[2] = 0x3c6ef372;
  DIGEST[3] = 0xa54ff53a;
  DIGEST[4] = 0x510e527f;
  DIGEST[5] = 0x9b05688c;
  DIGEST[6] = 0x1f83d9ab;
  DIGEST[7] = 0x5be0cd19;
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

// Unrolled by hand: helper functions for the rounds exceed V8's inlining budget and take twice the time.
export function compressBlock(): void {
  expand();
  let a = DIGEST[0] as number;
  let b = DIGEST[1] as number;
  let c = DIGEST[2] as number;
  let d = DIGEST[3] as number;
  let e = DIGEST[4] as number;
  let f = DIGEST[5] as number;
  let g = DIGEST[6] as number;
  let h = DIGEST[7] as number;
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
    // Four rounds rotated the variables by four places: swap the halves back.
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
  add(a, b, c, d, e, f, g, h);
}

// oxlint-disable-next-line max-params -- the eight words of the state, without an array. bench: verify/floor-1e5
function add(a: number, b: number, c: number, d: number, e: number, f: number, g: number, h: number): void {
  DIGEST[0] = (DIGEST[0] as number) + a;
  DIGEST[1] = (DIGEST[1] as number) + b;
  DIGEST[2] = (DIGEST[2] as number) + c;
  DIGEST[3] = (DIGEST[3] as number) + d;
  DIGEST[4] = (DIGEST[4] as number) + e;
  DIGEST[5] = (DIGEST[5] as number) + f;
  DIGEST[6] = (DIGEST[6] as number) + g;
  DIGEST[7] = (DIGEST[7] as number) + h;
}

/** FIPS 180-4 §4.2.2: the first 32 bits of the fractions of the cube roots of the first 64 primes. */
function roundConstants(): Int32Array {
  const primes: number[] = [];
  for (let n = 2; primes.length < 64; n++) if (primes.every((prime) => n % prime !== 0)) primes.push(n);
  return Int32Array.from(primes, (prime) => Math.floor((Math.cbrt(prime) % 1) * 2 ** 32));
}
