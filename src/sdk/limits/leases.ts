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
} from "./check.ts";

type Lease = { id: string; left: number; granted: number; askedAt: number; endsAt: number; states: RateLimitState[] };

type LeaseOutcome = "granted" | "denied" | "unreachable" | "unsupported";

/** The lease of one key and its recent use. */
type Slot = {
  rules: readonly RateLimit[];
  lease: Lease | null;
  want: number;
  waiting: number;
  pending: Promise<LeaseOutcome> | null;
  denied: ChargeResult;
  deniedUntil: number;
};

const SLOTS_MAX = 10_000;
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
  readonly #slots = new BoundedMap<string, Slot>({
    max: SLOTS_MAX,
    onEvict: (slot) => void this.#returnUnused(slot),
  });
  #unsupportedUntil = 0;

  constructor(runtime: Runtime, fallback: CheckLimiter) {
    this.#runtime = runtime;
    this.#fallback = fallback;
  }

  async charge(context: Context, rules: readonly RateLimit[], cost = 1, isMetered = false) {
    // Each request of a metered key is checked, so that its quotas are exact.
    if (cost === 0 || isMetered) return this.#fallback.charge(context, rules, cost, isMetered);
    const slot = this.#slotOf(`${context.env}:${context.keyId}`, rules);
    for (let tries = 0; tries < TRIES && this.#runtime.ports.elapsed() >= this.#unsupportedUntil; tries++) {
      const spent = this.#spend(slot, cost);
      if (spent) return spent;
      // A request that costs more than is left of the lease is checked alone.
      if (slot.lease && slot.lease.left > 0) break;
      if (slot.denied && this.#runtime.ports.elapsed() < slot.deniedUntil) return slot.denied;
      slot.waiting += cost;
      slot.pending ??= this.#request(slot, context).finally(() => (slot.pending = null));
      const outcome = await slot.pending;
      slot.waiting -= cost;
      if (outcome === "denied") return slot.denied;
      if (outcome === "unreachable") return null;
    }
    return this.#fallback.charge(context, rules, cost);
  }

  /** Returns the unused units of every lease. */
  async close(): Promise<void> {
    await Promise.all([...this.#slots.values()].map((slot) => this.#returnUnused(slot)));
  }

  #spend(slot: Slot, cost: number): ChargeResult {
    const { lease } = slot;
    if (!lease || lease.left === 0) return null;
    const now = this.#runtime.ports.elapsed();
    if (now >= lease.endsAt) {
      // Lapsed with unused units, which stay charged: request fewer next time.
      slot.want = Math.max(1, slot.want >> 1);
      slot.lease = null;
      return null;
    }
    if (lease.left < cost) return null;
    lease.left -= cost;
    if (lease.left === 0 && now - lease.askedAt < (lease.endsAt - lease.askedAt) / 2) slot.want *= 2;
    const states = lease.states.map((state) => ({
      ...state,
      remaining: Math.min(state.limit, state.remaining + lease.left),
      resetMs: Math.max(0, Math.round(state.resetMs - (now - lease.askedAt))),
    }));
    return { allowed: true, states, retryAfterSeconds: null };
  }

  async #request(slot: Slot, context: Context): Promise<LeaseOutcome> {
    if (!this.#fallback.reachability.mayCall()) return "unreachable";
    const askedAt = this.#runtime.ports.elapsed();
    const smallest = Math.min(...slot.rules.map((rule) => rule.limit));
    slot.want = Math.min(slot.want, WANT_MAX, Math.max(1, Math.floor(smallest / SHARE)));
    const want = Math.min(WANT_MAX, Math.max(slot.want, slot.waiting));
    try {
      const { json } = await this.#runtime.client.call({
        method: "POST",
        path: "/v1/ratelimit/lease",
        body: JSON.stringify({ ...subjectOf(this.#runtime.settings, context), limits: slot.rules, want }),
        timeoutMs: LIMITS_TIMEOUT_MS,
      });
      this.#fallback.reachability.succeeded();
      return this.#accept(slot, json, want, askedAt);
    } catch (error) {
      if (!(error instanceof CallError) || error.status !== 404) {
        this.#fallback.reachability.failed(error, askedAt);
        return "unreachable";
      }
      this.#unsupportedUntil = askedAt + UNSUPPORTED_MS;
      return "unsupported";
    }
  }

  #accept(slot: Slot, json: unknown, want: number, askedAt: number): LeaseOutcome {
    const { granted, lease_id, expires_in_ms, policies } = (json ?? {}) as Record<string, unknown>;
    const states = parseStates(policies, slot.rules);
    if (!states || !isCount(granted) || granted > want) return "unreachable";
    if (granted === 0) {
      slot.denied = denialFrom(states);
      slot.deniedUntil =
        this.#runtime.ports.elapsed() + Math.min(DENIAL_MS, Math.max(...states.map((one) => one.resetMs)));
      return "denied";
    }
    if (typeof lease_id !== "string" || !isCount(expires_in_ms)) return "unreachable";
    const lease: Lease = { id: lease_id, left: granted, granted, askedAt, endsAt: askedAt + expires_in_ms, states };
    slot.lease = lease;
    slot.denied = null;
    if (granted > 1) this.#runtime.ports.after(expires_in_ms * RETURN_AT, () => this.#returnEarly(slot, lease));
    return "granted";
  }

  /** Returns a lease with unused units shortly before its end, while other nodes can still use them. */
  #returnEarly(slot: Slot, lease: Lease): void {
    if (slot.lease !== lease || lease.left === 0) return;
    if (lease.left > lease.granted / 2) slot.want = Math.max(1, slot.want >> 1);
    void this.#returnUnused(slot);
  }

  async #returnUnused(slot: Slot): Promise<void> {
    const { lease } = slot;
    slot.lease = null;
    if (!lease || lease.left === 0 || this.#runtime.ports.elapsed() >= lease.endsAt) return;
    const body = JSON.stringify({ lease_id: lease.id, unused: lease.left });
    lease.left = 0;
    const call = { method: "POST" as const, path: "/v1/ratelimit/return", body, timeoutMs: CLOSE_TIMEOUT_MS };
    // A lost return leaves the units charged: too strict for a while, never too lenient.
    await this.#runtime.client.call(call).catch(() => {});
  }

  #slotOf(name: string, rules: readonly RateLimit[]): Slot {
    const known = this.#slots.get(name);
    // Rules are interned: a policy change yields another object.
    if (known?.rules === rules) return known;
    if (known) void this.#returnUnused(known);
    const slot: Slot = { rules, lease: null, want: 1, waiting: 0, pending: null, denied: null, deniedUntil: 0 };
    this.#slots.delete(name);
    this.#slots.set(name, slot);
    return slot;
  }
}

/** Waits for the exhausted rule with the longest reset. */
function denialFrom(states: readonly RateLimitState[]): ChargeResult {
  const spent = states.filter((state) => state.remaining === 0);
  const waits = (spent.length > 0 ? spent : states).map((state) => state.resetMs);
  return { allowed: false, states, retryAfterSeconds: Math.max(1, Math.ceil(Math.max(...waits) / 1000)) };
}
