// A project's rules for its keys: how long they may live, and what their holders may do.
import { DAY_MS, MINUTE_MS } from "../../kernel/durations.ts";
import { failField } from "../../kernel/errors.ts";
import { MS_MAX } from "../../kernel/timestamps.ts";

export type KeyPolicy = {
  /** The life of a key that asks for no expiry; null: that of max_ttl_days. */
  default_ttl_days: number | null;
  max_ttl_days: number | null;
  /** A key that is unused for this long is revoked; null: never. */
  idle_revoke_days: number | null;
  /** Days before the end of a key on which owners are notified, descending. */
  notice_days: number[];
  /** Whether the holder of a key may rotate it with the key itself. */
  holder_rotate: boolean;
};

/** Days at least between a change of the rule for idle keys and its first revocation. */
const LEAD_DAYS_MIN = 7;

/** Clocks of callers differ. */
const SLACK_MS = MINUTE_MS;

const DEFAULT_KEY_POLICY: KeyPolicy = {
  default_ttl_days: null,
  max_ttl_days: null,
  idle_revoke_days: null,
  notice_days: [],
  holder_rotate: false,
};

/** The stored policy; null in projects that never set one. */
export function parseKeyPolicy(stored: string | null): KeyPolicy {
  if (stored === null) return DEFAULT_KEY_POLICY;
  const policy = { ...DEFAULT_KEY_POLICY, ...(JSON.parse(stored) as Partial<KeyPolicy>) };
  return { ...policy, notice_days: policy.notice_days.toSorted((a, b) => b - a) };
}

/** Owners are notified of every idle key before the first is revoked. */
export function leadDays({ notice_days }: KeyPolicy): number {
  return Math.max(LEAD_DAYS_MIN, ...notice_days);
}

/** Days that a key lives which asks for no expiry. */
export function usualTtlDays({ default_ttl_days, max_ttl_days }: KeyPolicy): number | null {
  return default_ttl_days ?? max_ttl_days;
}

/** The expiry of a new key. `requested`: undefined if the caller leaves it to the policy, null for none. */
export function initialExpiry(policy: KeyPolicy, now: number, requested: number | null | undefined): number | null {
  if (requested === undefined) return afterDays(now, usualTtlDays(policy));
  requireWithinMax(policy, now, requested);
  return requested;
}

/** Rejects an expiry, or none, that is later than the policy allows. */
export function requireWithinMax({ max_ttl_days }: KeyPolicy, created_at: number, expires_at: number | null): void {
  if (max_ttl_days === null) return;
  if (expires_at === null || expires_at > created_at + max_ttl_days * DAY_MS + SLACK_MS)
    throw failField("invalid_body", "expires_at", `must be within ${max_ttl_days} days of the key's creation`);
}

/**
 * The stored form of "a person chose that the key never expires"; null: not chosen. A time, so that a process of the
 * previous release gives a successor an expiry that is as good as none.
 */
const NEVER = MS_MAX;

/** The stored form of the expiry that a person requested. */
export function requestedExpiry(requested: number | null | undefined): number | null {
  return requested === null ? NEVER : (requested ?? null);
}

/** The expiry of a successor. One that a person requested is kept, within the policy; any other starts afresh. */
export function successorExpiry(policy: KeyPolicy, now: number, requested: number | null): number | null {
  if (requested === null) return afterDays(now, usualTtlDays(policy));
  const latest = afterDays(now, policy.max_ttl_days);
  if (latest !== null) return Math.min(requested, latest);
  return requested === NEVER ? null : requested;
}

function afterDays(now: number, days: number | null): number | null {
  return days === null ? null : now + days * DAY_MS;
}
