// The rate limiter's tiny interface: what may be asked of a counter store and what it answers, in wire spelling.
// The trap: `check` may answer without a promise (the in-process store does); await it, never call `.then` on it.
import type { RateLimit } from "../kernel/ratelimit/rule.ts";
import { limitedBy, retryAfterSeconds } from "../kernel/ratelimit/window.ts";

/** Whose counters. A null id is not a free pass: all such calls share one anonymous counter (decision 130). */
export type Subject = {
  workspace_id: string;
  project_id: string;
  env: "live" | "test";
  key_id: string | null;
  tenant_id: string | null;
};

/** `cost` 0 is a peek: it writes nothing and asks whether 1 would pass. Rule ids within `limits` are unique. */
export type CheckRequest = Subject & { cost: number; limits: readonly RateLimit[] };
export type LeaseRequest = Subject & { want: number; limits: readonly RateLimit[] };

export type StoreName = "memory" | "redis";

export type PolicyState = { id: string; limit: number; window_ms: number; remaining: number; reset_ms: number };

export type Verdict = {
  allowed: boolean;
  limited_policy: string | null;
  retry_after_seconds: number | null;
  store: StoreName;
  policies: PolicyState[];
};

/** Nothing granted: `lease_id` null and `expires_in_ms` 0. Spend strictly before the end, counted from the asking. */
export type Lease = {
  granted: number;
  lease_id: string | null;
  expires_in_ms: number;
  store: StoreName;
  policies: PolicyState[];
};

export type Counter = {
  /** Charges `cost` to every rule or to none. */
  check(request: CheckRequest): Promise<Verdict> | Verdict;
  /** Charges up to `want` units at once, to be spent by the caller until the lease ends. */
  lease(request: LeaseRequest): Promise<Lease> | Lease;
  /**
   * Gives unspent units back and ends the lease; answers how many were taken back. An id that is unknown, lapsed,
   * already returned or another workspace's gives back nothing, so a repeated return is safe.
   */
  returnLease(workspace_id: string, lease_id: string, unused: number): Promise<number> | number;
  close(): Promise<void> | void;
};

/** Both stores refuse alike: `waits` holds one wait in ms per rule, 0 where it passes, Infinity where it never will. */
export function verdictOf(
  store: StoreName,
  limits: readonly RateLimit[],
  waits: ArrayLike<number>,
  policies: PolicyState[],
): Verdict {
  const limited = limitedBy(waits, limits.length);
  if (limited < 0) return { allowed: true, limited_policy: null, retry_after_seconds: null, store, policies };
  return {
    allowed: false,
    limited_policy: limits[limited]!.id,
    retry_after_seconds: retryAfterSeconds(waits[limited]!),
    store,
    policies,
  };
}

/** The id a rule counts by; "-" is the anonymous counter. */
export function subjectOf(request: Subject, rule: RateLimit): string {
  return (rule.scope === "key" ? request.key_id : request.tenant_id) ?? ANONYMOUS;
}

export const ANONYMOUS = "-";
