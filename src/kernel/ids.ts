// UUIDs (RFC 9562): generates version 7, parses any version. Version 7 in bits, big endian:
//
//   48 unix milliseconds | 4 version 0111 | 12 rand_a | 2 variant 10 | 62 rand_b
//
// An id is not a secret. Text order is time order, so "newest first" pages by a keyset on the id.

import { HEX } from "./crypto/bytes.ts";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const NIL = "00000000-0000-0000-0000-000000000000";
const MAX = "ffffffff-ffff-ffff-ffff-ffffffffffff";
const MS_MAX = 2 ** 48 - 1;
const RANDOM_BYTES = 10;
const POOLED_IDS = 400;

/** Sorts after every id. */
export const LAST_ID = "~";

/** Ids that strictly increase within one process, even when the clock steps back. */
export function createIdGenerator(randomBytes: (n: number) => Uint8Array): (nowMs: number) => string {
  let ms = -1;
  let tail: Tail = { a: 0, b: 0, c: 0 };
  // A call for random bytes costs more than an id, so one call serves POOLED_IDS of them. bench: parts/healthz
  let pool: Uint8Array = new Uint8Array();
  let used = 0;
  return (nowMs) => {
    const now = wholeMs(nowMs);
    if (used === pool.length) {
      pool = randomBytes(RANDOM_BYTES * POOLED_IDS);
      if (pool.length % RANDOM_BYTES !== 0) throw new RangeError(`A UUID needs ${RANDOM_BYTES} random bytes.`);
      used = 0;
    }
    const fresh = randomTail(pool, used);
    used += RANDOM_BYTES;
    // RFC 9562 §6.2 method 2: within one millisecond, step the random part by a random amount.
    const next = now > ms ? null : addToTail(tail, fresh.c + 1);
    ms = next ? ms : Math.max(now, ms + 1);
    tail = next ?? fresh;
    return formatUuid(ms, tail);
  };
}

/** Any RFC 9562 UUID (versions 1 to 8, nil, max), lower-cased; null for anything else. */
export function parseUuid(text: string): string | null {
  if (text.length !== NIL.length) return null;
  const lower = text.toLowerCase();
  return UUID.test(lower) || lower === NIL || lower === MAX ? lower : null;
}

/** A lower-case UUID of versions 1 to 8; `parseUuid` accepts the rarer spellings. */
export function isUuid(value: unknown): value is string {
  return typeof value === "string" && value.length === NIL.length && UUID.test(value);
}

/** When a version 7 id was made, in Unix milliseconds; null for other versions. */
export function timeOfUuid(id: string): number | null {
  return isUuid(id) && id[14] === "7" ? Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16) : null;
}

/** The 74 random bits: 12 of rand_a, then rand_b as 30 and 32. */
type Tail = { a: number; b: number; c: number };

function randomTail(random: Uint8Array, at: number): Tail {
  const byte = (i: number): number => random[at + i] ?? 0;
  return {
    a: ((byte(0) & 0x0f) << 8) | byte(1),
    b: ((byte(2) & 0x3f) << 24) | (byte(3) << 16) | (byte(4) << 8) | byte(5),
    c: ((byte(6) << 24) | (byte(7) << 16) | (byte(8) << 8) | byte(9)) >>> 0,
  };
}

/** Null when the 74 bits overflow. */
function addToTail({ a, b, c }: Tail, by: number): Tail | null {
  const low = c + by;
  const middle = low < 2 ** 32 ? b : b + 1;
  const high = middle < 2 ** 30 ? a : a + 1;
  return high < 2 ** 12 ? { a: high, b: middle & (2 ** 30 - 1), c: low >>> 0 } : null;
}

function wholeMs(nowMs: number): number {
  const ms = Math.floor(nowMs);
  if (!(ms >= 0 && ms <= MS_MAX)) throw new RangeError("A UUID holds milliseconds from 0 to 2^48-1.");
  return ms;
}

/** By table, because every request has an id. bench: ratelimit/check */
function formatUuid(ms: number, { a, b, c }: Tail): string {
  const time = `${fourDigits(Math.floor(ms / 2 ** 32))}${fourDigits(ms >>> 16)}-${fourDigits(ms)}`;
  const [version, variant] = [fourDigits(0x7000 | a), fourDigits(0x8000 | (b >>> 16))];
  return `${time}-${version}-${variant}-${fourDigits(b)}${fourDigits(c >>> 16)}${fourDigits(c)}`;
}

/** Formats the lowest 16 bits. */
function fourDigits(value: number): string {
  return (HEX[(value >>> 8) & 0xff] as string) + (HEX[value & 0xff] as string);
}
