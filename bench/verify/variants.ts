// What verify() is compared with. The floor is the fastest known lookup without any further check: one fused pass, its
// 64 rounds unrolled by generated code (which the SDK must not do: many environments forbid eval), then one probe of an
// open-addressing typed-array table by sixteen bytes of the digest; once with rows of a key's twelve attributes, once
// with rows of the digest only. The idiomatic variant is a straightforward implementation with a Map.
import { hash } from "node:crypto";
import { crc32 } from "node:zlib";

export type Variant = (header: string) => boolean;

const BEARER = 7;

export function idiomatic(keys: readonly string[], scopes: readonly string[]): Variant {
  type Entry = { id: number; env: string; tenant: string; scopes: Set<string>; expiresAt: number | null };
  const byHash = new Map<string, Entry>();
  for (const [id, key] of keys.entries()) {
    const entry = { id, env: "live", tenant: `t${id % 1000}`, scopes: new Set(scopes), expiresAt: null };
    byHash.set(hash("sha256", key, "hex"), entry);
  }
  const form = /^kr_(live|test)_[A-Za-z0-9_-]{32}[0-9a-f]{8}$/;
  return (header) => {
    const key = header.slice(BEARER);
    const match = form.exec(key);
    if (!match) return false;
    if (crc32(key.slice(0, 40)).toString(16).padStart(8, "0") !== key.slice(40)) return false;
    const entry = byHash.get(hash("sha256", key, "hex"));
    if (!entry || entry.env !== match[1]) return false;
    if (entry.expiresAt !== null && entry.expiresAt <= Date.now()) return false;
    return scopes.every((scope) => entry.scopes.has(scope));
  };
}

/** `row`: 32-bit words per key, 16 with its attributes and 4 without. */
export function floor(keys: readonly string[], row: 4 | 16): Variant {
  const digest = new Int32Array(8);
  const fused = unrolled(digest);
  const rows = Math.ceil(keys.length / 0.6);
  const table = new Int32Array(rows * row);
  const slotOf = (): number => {
    let slot = Math.floor(((digest[0] as number) >>> 0) * (rows / 2 ** 32)) * row;
    while (table[slot] !== 0 || table[slot + 1] !== 0) {
      const same = table[slot] === digest[0] && table[slot + 1] === digest[1];
      if (same && table[slot + 2] === digest[2] && table[slot + 3] === digest[3]) return slot;
      slot = slot + row === table.length ? 0 : slot + row;
    }
    return -1 - slot;
  };
  for (const key of keys) {
    fused(key, 0);
    table.set(digest.subarray(0, 4), -1 - slotOf());
  }
  return (header) => fused(header, BEARER) && slotOf() >= 0;
}

/** charset + CRC-32 + SHA-256 of the 48 characters at an offset, as one function without a loop. */
function unrolled(digest: Int32Array): (text: string, offset: number) => boolean {
  const lines: string[] = ["if (t.length !== p + 48) return false; let all = 0, ok = 1, crc, x, y;"];
  for (let i = 0; i < 12; i++) lines.push(readWord(i));
  lines.push(`if (w0 !== ${be("kr_l")} || w1 !== ${be("ive_")}) return false; crc = ${prefixCrc("kr_live_")};`);
  for (let i = 2; i < 10; i++) {
    lines.push(`crc = T3[(crc ^ (w${i} >>> 24)) & 255] ^ T2[((crc >>> 8) ^ (w${i} >>> 16)) & 255]
      ^ T1[((crc >>> 16) ^ (w${i} >>> 8)) & 255] ^ T0[((crc >>> 24) ^ w${i}) & 255];`);
  }
  lines.push("if (all > 127 || ok === 0 || ((hex(w10) << 16) | hex(w11)) !== ~crc) return false;");
  lines.push(`let w12 = ${0x80000000 | 0}, w13 = 0, w14 = 0, w15 = 384;`);
  const start = fractions(8, Math.sqrt);
  lines.push(`let ${[..."abcdefgh"].map((name, i) => `${name} = ${start[i]}`).join(", ")};`);
  for (const [i, k] of fractions(64, Math.cbrt).entries()) lines.push(round(i, k));
  for (const [i, name] of [..."abcdefgh"].entries()) lines.push(`D[${i}] = ${name} + ${start[i]};`);
  const source = `const hex = (w) => (H[w >>> 24] << 12) | (H[(w >>> 16) & 127] << 8) | (H[(w >>> 8) & 127] << 4) | H[w & 127];
    return function fused(t, p) { ${lines.join("\n")} return true; };`;
  // oxlint-disable-next-line typescript/no-implied-eval -- the point of this floor, see above
  const make = new Function("D", "T0", "T1", "T2", "T3", "C", "H", source);
  return make(digest, ...crcTables(), inBody, hexValues) as (text: string, offset: number) => boolean;
}

const inBody = Uint8Array.from({ length: 128 }, (_, c) => (/[A-Za-z0-9_-]/.test(String.fromCharCode(c)) ? 1 : 0));
const hexValues = Int8Array.from({ length: 128 }, (_, c) => "0123456789abcdef".indexOf(String.fromCharCode(c)));
const be = (text: string): number => Buffer.from(text).readInt32BE(0);

function readWord(i: number): string {
  const at = [0, 1, 2, 3].map((n) => `c${4 * i + n}`);
  return `const ${at.map((name, n) => `${name} = t.charCodeAt(p + ${4 * i + n})`).join(", ")};
    all |= ${at.join(" | ")}; ok &= ${at.map((name) => `C[${name} & 127]`).join(" & ")};
    let w${i} = (${at[0]} << 24) | (${at[1]} << 16) | (${at[2]} << 8) | ${at[3]};`;
}

function round(i: number, k: number): string {
  const [a, b, c, d, e, f, g, h] = Array.from("abcdefgh", (_, n) => "abcdefgh"[(n - i + 64) % 8]);
  const w = (n: number) => `w${(n + 64) % 16}`;
  const turn = (x: string, n: number) => `(${x} >>> ${n} | ${x} << ${32 - n})`;
  const expand = `x = ${w(i - 15)}; y = ${w(i - 2)};
    ${w(i)} = (${w(i)} + ${w(i - 7)} + (${turn("x", 7)} ^ ${turn("x", 18)} ^ x >>> 3) + (${turn("y", 17)} ^ ${turn("y", 19)} ^ y >>> 10)) | 0;`;
  return `${i < 16 ? "" : expand}
    x = (${h} + (${turn(`${e}`, 6)} ^ ${turn(`${e}`, 11)} ^ ${turn(`${e}`, 25)}) + (${g} ^ (${e} & (${f} ^ ${g}))) + ${k} + ${w(i)}) | 0;
    ${d} = (${d} + x) | 0;
    ${h} = (x + (${turn(`${a}`, 2)} ^ ${turn(`${a}`, 13)} ^ ${turn(`${a}`, 22)}) + ((${a} & ${b}) | (${c} & (${a} | ${b})))) | 0;`;
}

/** FIPS 180-4: the fractions of roots of the first primes. */
function fractions(count: number, root: (n: number) => number): number[] {
  const primes: number[] = [];
  for (let n = 2; primes.length < count; n++) if (primes.every((prime) => n % prime !== 0)) primes.push(n);
  return primes.map((prime) => Math.floor((root(prime) % 1) * 2 ** 32) | 0);
}

function crcTables(): Int32Array[] {
  const step = (crc: number): number => (crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1);
  const one = Int32Array.from({ length: 256 }, (_, byte) => {
    let crc = byte;
    for (let bit = 0; bit < 8; bit++) crc = step(crc);
    return crc;
  });
  const tables = [one];
  for (let n = 1; n < 4; n++) tables.push(tables[n - 1]?.map((crc) => (crc >>> 8) ^ (one[crc & 255] ?? 0)) ?? one);
  return tables;
}

const prefixCrc = (prefix: string): number => ~crc32(prefix);
