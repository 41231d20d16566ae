// Rate-limit window arithmetic: which span a moment falls into, when that span stops counting, how long a lease lives.
// See docs/design/0005-rate-limiter-algorithm.md and 0012-counters-and-leases.md. Caution: the oldest sub-window,
// partly outside the window, counts in full, so 61 sub-windows count at any moment, and a lease books ahead of them
// all. Counting 60 would admit a burst twice.
//
// A span is one 60th of the window under `sliding` and the whole window under `fixed`; both start at the epoch, so
// every process and Redis agree on the indexes. Times are whole milliseconds: t·60 stays under 2^53 until the year
// 6700, and neither division below can round across a whole number (its remainder is at least 1/window_ms of a unit,
// far above half an ulp), which is why the same two lines in Lua's doubles give the same indexes.

import type { RateLimit } from "./rule.ts";

/** The part of a rule that a decision reads; a counter store keeps exactly this with its counter. */
export type Window = Pick<RateLimit, "algorithm" | "window_ms">;

export const SUB_WINDOWS = 60;
export const LEASE_MAX_MS = 10_000;
/** A lease lives at most a tenth of its window, so it books at most this many sub-windows ahead of now. */
export const SUB_WINDOWS_AHEAD = SUB_WINDOWS / 10;

/** The span that a unit spent at `t` falls into. */
export function spanAt(rule: Window, t: number): number {
  return rule.algorithm === "sliding" ? Math.floor((t * SUB_WINDOWS) / rule.window_ms) : Math.floor(t / rule.window_ms);
}

/** The oldest span that still counts while `span` is the current one. */
export function oldestCounted(rule: Window, span: number): number {
  return rule.algorithm === "sliding" ? span - SUB_WINDOWS : span;
}

/** The first whole millisecond at which `span` no longer counts. */
export function lapsesAt(rule: Window, span: number): number {
  return rule.algorithm === "sliding"
    ? Math.ceil(((span + SUB_WINDOWS + 1) * rule.window_ms) / SUB_WINDOWS)
    : (span + 1) * rule.window_ms;
}

/** When a lease granted now over all these rules ends: its units may be spent before that moment, never at it. */
export function leaseEnd(rules: readonly Window[], now: number): number {
  let end = now + LEASE_MAX_MS;
  for (const rule of rules) {
    end = Math.min(end, now + Math.floor(rule.window_ms / 10));
    if (rule.algorithm === "fixed") end = Math.min(end, lapsesAt(rule, spanAt(rule, now)));
  }
  return end;
}

/**
 * The span a lease is booked into. Its units may be spent as late as its end, so a sliding rule counts them as if all
 * were spent there. Booked at the grant they would expire up to a lease too early, and units spent late in this lease
 * would share one real window with units granted after it. A fixed rule's lease never leaves its
 * window, and its end may be the first moment of the next one, so there it is the span of the grant.
 */
export function leaseSpan(rule: Window, now: number, end: number): number {
  return spanAt(rule, rule.algorithm === "sliding" ? end : now);
}

/** Units left; never negative, even if a limit was lowered below its count. */
export function remainingOf(limit: number, used: number): number {
  return Math.max(0, limit - used);
}

/** Milliseconds until more units are available: a fixed window's end, or when the oldest span holding units expires. */
export function resetMs(rule: Window, now: number, used: number, oldest: number): number {
  if (rule.algorithm === "fixed") return lapsesAt(rule, spanAt(rule, now)) - now;
  return used > 0 ? lapsesAt(rule, oldest) - now : 0;
}

/** The rule that a denial names: the longest wait, the first of equals; -1 when all rules admit the call. */
export function limitedBy(waits: ArrayLike<number>, count: number): number {
  let longest = -1;
  let wait = 0;
  for (let i = 0; i < count; i++) {
    if (waits[i]! > wait) {
      longest = i;
      wait = waits[i]!;
    }
  }
  return longest;
}

/** A wait as `Retry-After` seconds: rounded up, at least 1; null if waiting never helps (cost over limit). */
export function retryAfterSeconds(waitMs: number): number | null {
  return waitMs === Infinity ? null : Math.max(1, Math.ceil(waitMs / 1000));
}
