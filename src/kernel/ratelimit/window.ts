// Rate-limit windows as arithmetic: which span of time a moment falls into, when that span stops counting, how long
// a lease may live. Decisions 124-130 and 191. The trap: the oldest, partly passed sub-window counts in full, so 61
// sub-windows count at any moment, and a lease books ahead of them all; counting 60 lets a burst through twice.
//
// A span is one 60th of the window under `sliding` and the whole window under `fixed`; both start at the epoch, so
// every process and Redis agree on the indexes. Times are whole milliseconds: t·60 stays under 2^53 until the year
// 6700, and neither division below can round across a whole number (its remainder is at least 1/window_ms of a unit,
// far above half an ulp), which is why the same two lines in Lua's doubles give the same indexes.

import type { RateLimit } from "./rule.ts";

/** What decisions read of a rule; the store keeps exactly this much beside its counter. */
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
 * were spent there; booked at the grant they would lapse up to a lease too early, and what was spent late in this
 * lease would fit into one true window together with what is granted after it. A fixed rule's lease never leaves its
 * window, and its end may be the first moment of the next one, so there it is the span of the grant.
 */
export function leaseSpan(rule: Window, now: number, end: number): number {
  return spanAt(rule, rule.algorithm === "sliding" ? end : now);
}

/** What a rule has left; never negative, though a limit lowered under its count would say so. */
export function remainingOf(limit: number, used: number): number {
  return Math.max(0, limit - used);
}

/** Milliseconds until more quota appears: a fixed window's end, or when the oldest span holding units lapses. */
export function resetMs(rule: Window, now: number, used: number, oldest: number): number {
  if (rule.algorithm === "fixed") return lapsesAt(rule, spanAt(rule, now)) - now;
  return used > 0 ? lapsesAt(rule, oldest) - now : 0;
}

/** Which rule a denial names: the one with the longest wait, the first of equals; -1 when all let the call pass. */
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

/** A wait as `Retry-After` says it: never early, at least 1, and null where waiting never helps (cost over limit). */
export function retryAfterSeconds(waitMs: number): number | null {
  return waitMs === Infinity ? null : Math.max(1, Math.ceil(waitMs / 1000));
}
