// Rate limits by lease: leases units from the control plane, spends them locally and returns unused units before the
// lease ends (docs/design/0012-counters-and-leases.md). A lease's time is measured from before the request for it, and
// nothing is spent after its end: the control plane books the units at that end, which keeps the total under the limit.

import { BoundedMap } from "../../kernel/bounded-map.ts";
import { MINUTE_MS } from "../../kernel/durations.ts";
import type { RateLimitState } from "../../kernel/ratelimit/headers.ts";
import type { RateLimit } from "../../kernel/ratelimit/rule.ts";
import { CallError, type Runtime } from "../client.ts";
import type { Context } from "../context.ts";
import {
  type ChargeResult,
  type CheckLimiter,
  isCount,
  LIMITS_TIMEOUT_MS,
  type Limiter,
  parseStates,
  subjectOf,
  unusable,
} from "./check.ts";

type Lease = { id: string; left: number; granted: number; askedAt: number; endsAt: number; states: RateLimitState[] };

type LeaseOutcome = "granted" | "denied" | "unreachable" | "unsupported";

/** The lease of one key and its recent use. */
type KeyLease = {
  rules: readonly RateLimit[];
  lease: Lease | null;
  want: number;
  waiting: number;
  pending: Promise<LeaseOutcome> | null;
  denied: ChargeResult;
  deniedUntil: number;
};

const KEY_LEASES_MAX = 10_000;
const WANT_MAX = 1000;
/** A lease is at most a sixteenth of the smallest limit, so that one node cannot hold all of it. */
const SHARE = 16;
const RETURN_AT = 0.8;
const DENIAL_MS = 250;
const CLOSE_TIMEOUT_MS = 2000;
const UNSUPPORTED_MS = 5 * MINUTE_MS;
const TRIES = 20;

export class LeaseLimiter implements Limiter {
  readonly #runtime: Runtime;
  /** Used when the control plane does not support leases, or when every lease obtained is spent at once. */
  readonly #fallback: CheckLimiter;
  readonly #keyLeases = new BoundedMap<string, KeyLease>({
    max: KEY_LEASES_MAX,
    onEvict: (keyLease) => void this.#returnUnused(keyLease),
  });
  #unsupportedUntil = 0;

  constructor(runtime: Runtime, fallback: CheckLimiter) {
    this.#runtime = runtime;
    this.#fallback = fallback;
  }

  async charge(context: Context, rules: readonly RateLimit[], cost = 1, isMetered = false) {
    // Each request of a metered key is checked, so that its quotas are exact.
    if (cost === 0 || isMetered) return this.#fallback.charge(context, rules, cost, isMetered);
    const keyLease = this.#keyLeaseOf(`${context.env}:${context.keyId}`, rules);
    for (let tries = 0; tries < TRIES && this.#runtime.ports.elapsed() >= this.#unsupportedUntil; tries++) {
      const spent = this.#spend(keyLease, cost);
      if (spent) return spent;
      // A request that costs more than is left of the lease is checked alone.
      if (keyLease.lease && keyLease.lease.left > 0) break;
      if (keyLease.denied && this.#runtime.ports.elapsed() < keyLease.deniedUntil) return keyLease.denied;
      keyLease.waiting += cost;
      keyLease.pending ??= this.#request(keyLease, context).finally(() => (keyLease.pending = null));
      const outcome = await keyLease.pending;
      keyLease.waiting -= cost;
      if (outcome === "denied") return keyLease.denied;
      if (outcome === "unreachable") return null;
    }
    return this.#fallback.charge(context, rules, cost);
  }

  /** Returns the unused units of every lease. */
  async close(): Promise<void> {
    await Promise.all([...this.#keyLeases.values()].map((keyLease) => this.#returnUnused(keyLease)));
  }

  #spend(keyLease: KeyLease, cost: number): ChargeResult {
    const { lease } = keyLease;
    if (!lease || lease.left === 0) return null;
    const now = this.#runtime.ports.elapsed();
    if (now >= lease.endsAt) {
      // Lapsed with unused units, which stay charged: request fewer next time.
      keyLease.want = Math.max(1, keyLease.want >> 1);
      keyLease.lease = null;
      return null;
    }
    if (lease.left < cost) return null;
    lease.left -= cost;
    if (lease.left === 0 && now - lease.askedAt < (lease.endsAt - lease.askedAt) / 2) keyLease.want *= 2;
    const states = lease.states.map((state) => ({
      ...state,
      remaining: Math.min(state.limit, state.remaining + lease.left),
      resetMs: Math.max(0, Math.round(state.resetMs - (now - lease.askedAt))),
    }));
    return { allowed: true, states, retryAfterSeconds: null };
  }

  async #request(keyLease: KeyLease, context: Context): Promise<LeaseOutcome> {
    if (!this.#fallback.reachability.mayCall()) return "unreachable";
    const askedAt = this.#runtime.ports.elapsed();
    const smallest = Math.min(...keyLease.rules.map((rule) => rule.limit));
    keyLease.want = Math.min(keyLease.want, WANT_MAX, Math.max(1, Math.floor(smallest / SHARE)));
    const want = Math.min(WANT_MAX, Math.max(keyLease.want, keyLease.waiting));
    try {
      const { json } = await this.#runtime.client.call({
        method: "POST",
        path: "/v1/ratelimit/lease",
        body: JSON.stringify({ ...subjectOf(this.#runtime.settings, context), limits: keyLease.rules, want }),
        timeoutMs: LIMITS_TIMEOUT_MS,
      });
      const outcome = this.#accept(keyLease, json, want, askedAt);
      this.#fallback.reachability.succeeded();
      return outcome;
    } catch (error) {
      if (!(error instanceof CallError) || error.status !== 404) {
        this.#fallback.reachability.failed(error, askedAt);
        return "unreachable";
      }
      this.#unsupportedUntil = askedAt + UNSUPPORTED_MS;
      return "unsupported";
    }
  }

  #accept(keyLease: KeyLease, json: unknown, want: number, askedAt: number): LeaseOutcome {
    const { granted, lease_id, expires_in_ms, policies } = (json ?? {}) as Record<string, unknown>;
    const states = parseStates(policies, keyLease.rules);
    if (!states || !isCount(granted) || granted > want) throw unusable();
    if (granted === 0) {
      keyLease.denied = denialFrom(states);
      keyLease.deniedUntil =
        this.#runtime.ports.elapsed() + Math.min(DENIAL_MS, Math.max(...states.map((one) => one.resetMs)));
      return "denied";
    }
    if (typeof lease_id !== "string" || !isCount(expires_in_ms)) throw unusable();
    const lease: Lease = { id: lease_id, left: granted, granted, askedAt, endsAt: askedAt + expires_in_ms, states };
    keyLease.lease = lease;
    keyLease.denied = null;
    if (granted > 1) this.#runtime.ports.after(expires_in_ms * RETURN_AT, () => this.#returnEarly(keyLease, lease));
    return "granted";
  }

  /** Returns a lease with unused units shortly before its end, while other nodes can still use them. */
  #returnEarly(keyLease: KeyLease, lease: Lease): void {
    if (keyLease.lease !== lease || lease.left === 0) return;
    if (lease.left > lease.granted / 2) keyLease.want = Math.max(1, keyLease.want >> 1);
    void this.#returnUnused(keyLease);
  }

  async #returnUnused(keyLease: KeyLease): Promise<void> {
    const { lease } = keyLease;
    keyLease.lease = null;
    if (!lease || lease.left === 0 || this.#runtime.ports.elapsed() >= lease.endsAt) return;
    const body = JSON.stringify({ lease_id: lease.id, unused: lease.left });
    lease.left = 0;
    const call = { method: "POST" as const, path: "/v1/ratelimit/return", body, timeoutMs: CLOSE_TIMEOUT_MS };
    // A lost return leaves the units charged: too strict for a while, never too lenient.
    await this.#runtime.client.call(call).catch(() => {});
  }

  #keyLeaseOf(name: string, rules: readonly RateLimit[]): KeyLease {
    const known = this.#keyLeases.get(name);
    // Rules are interned: a policy change yields another object.
    if (known?.rules === rules) return known;
    if (known) void this.#returnUnused(known);
    const keyLease: KeyLease = { rules, lease: null, want: 1, waiting: 0, pending: null, denied: null, deniedUntil: 0 };
    this.#keyLeases.delete(name);
    this.#keyLeases.set(name, keyLease);
    return keyLease;
  }
}

/** Waits for the exhausted rule with the longest reset. */
function denialFrom(states: readonly RateLimitState[]): ChargeResult {
  const spent = states.filter((state) => state.remaining === 0);
  const waits = (spent.length > 0 ? spent : states).map((state) => state.resetMs);
  return { allowed: false, states, retryAfterSeconds: Math.max(1, Math.ceil(Math.max(...waits) / 1000)) };
}
