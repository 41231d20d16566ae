// The counter store interface: requests and results, with field names as in the API.
// Caution: the in-process store returns without a promise; await the results, never call `.then` on them.
import type { RateLimit } from "../kernel/ratelimit/rule.ts";
import { limitedBy, retryAfterSeconds } from "../kernel/ratelimit/window.ts";

/** Identifies the counters. A null id does not bypass the limit: all such calls share one anonymous counter. */
export type Subject = {
  workspace_id: string;
  project_id: string;
  env: "live" | "test";
  key_id: string | null;
  tenant_id: string | null;
  /** Who created the workspace: its cells share one part of the counters. */
  account_id?: string | null | undefined;
};

/**
 * `cost` 0 is a peek: it charges nothing and reports whether 1 would be allowed. Rule ids within `limits` are unique.
 */
export type CheckRequest = Subject & { cost: number; limits: readonly RateLimit[] };
export type LeaseRequest = Subject & { want: number; limits: readonly RateLimit[] };

type StoreName = "memory" | "redis";

export type RuleState = { id: string; limit: number; window_ms: number; remaining: number; reset_ms: number };

export type Verdict = {
  allowed: boolean;
  limited_policy: string | null;
  retry_after_seconds: number | null;
  store: StoreName;
  policies: RuleState[];
};

/**
 * When nothing is granted, `lease_id` is null and `expires_in_ms` 0. Units must be spent strictly before the end,
 * measured from the moment the request was sent.
 */
export type Lease = {
  granted: number;
  lease_id: string | null;
  expires_in_ms: number;
  store: StoreName;
  policies: RuleState[];
};

/** Records of leases that every process can read, and one of them can take. */
export type SharedLeases = {
  /** Returns false if the record is certainly not stored; after an error it may be. */
  put(workspace_id: string, lease_id: string, record: string, ttlMs: number): Promise<boolean>;
  /** Returns the record to the first caller only. Null: unknown, already taken, or an error. */
  take(workspace_id: string, lease_id: string): Promise<string | null>;
};

export type Counter = {
  /** Charges `cost` to every rule or to none. */
  check(request: CheckRequest): Verdict | Promise<Verdict>;
  /** Charges up to `want` units at once, to be spent by the caller until the lease ends. */
  lease(request: LeaseRequest): Lease | Promise<Lease>;
  /**
   * Ends the lease and credits its unspent units; returns how many. An id that is unknown, expired, already returned
   * or of another workspace credits nothing, so a repeated return is safe.
   */
  returnLease(workspace_id: string, lease_id: string, unused: number): number | Promise<number>;
  close(): void;
};

/** The verdict of either store. `waits` has one wait in ms per rule: 0 allows, Infinity never will. */
export function verdictOf(
  store: StoreName,
  limits: readonly RateLimit[],
  waits: ArrayLike<number>,
  policies: RuleState[],
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
