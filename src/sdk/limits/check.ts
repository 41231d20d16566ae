// Rate limits by the control plane's check endpoint. When the counters do not respond within 250 ms the request is
// admitted as degraded, in both fail modes: a limit protects a service and must not be what takes it down.

import type { RateLimitState } from "../../kernel/ratelimit/headers.ts";
import { RULE_ID, type RateLimit } from "../../kernel/ratelimit/rule.ts";
import { CallError, type Runtime } from "../client.ts";
import type { Context } from "../context.ts";
import type { Settings } from "../options.ts";
import { OwedUnits, type Report } from "./owed.ts";
import { Reachability } from "./reachability.ts";

export const LIMITS_TIMEOUT_MS = 250;
const SETTLED_AT_ONCE = 100;

/** The result of charging a request, or null when the counters could not be reached. */
export type ChargeResult = {
  allowed: boolean;
  states: readonly RateLimitState[];
  /** Null when waiting does not help, and when allowed. */
  retryAfterSeconds: number | null;
  /** The quota that refuses, and when it is refilled. */
  quota?: { id: string; resetsAt: string | null };
} | null;

export type Limiter = {
  /** `isMetered`: quotas of the key and its tenant are charged too. */
  charge(
    context: Context,
    rules: readonly RateLimit[],
    cost?: number,
    isMetered?: boolean,
  ): Promise<ChargeResult | "unavailable">;
};

export class CheckLimiter implements Limiter {
  readonly #runtime: Runtime;
  /** Shared with the leases, which are taken from the same counters. */
  readonly reachability: Reachability;
  readonly #owed: OwedUnits;

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
    this.reachability = new Reachability(runtime);
    this.#owed = new OwedUnits(runtime.ports.now);
  }

  async charge(context: Context, rules: readonly RateLimit[], cost = 1, isMetered = false) {
    const result = this.reachability.mayCall() ? await this.#checkWithOwed(context, rules, cost, isMetered) : null;
    if (result !== null || !isMetered) return result;
    if (this.#runtime.settings.quotaFailMode === "closed") return "unavailable" as const;
    this.#owed.add(context, cost);
    return null;
  }

  /** Charging what is owed takes longer than a check, so it waits while calls are slow. */
  #checkWithOwed(context: Context, rules: readonly RateLimit[], cost: number, isMetered: boolean) {
    const owed = isMetered && !this.reachability.isSlow ? this.#owed.take(context) : null;
    return this.#check(context, rules, cost, isMetered, owed);
  }

  /** Charges what is owed. What cannot be charged now is given up. */
  async close(): Promise<void> {
    for (;;) {
      const some = this.#owed.contexts().slice(0, SETTLED_AT_ONCE);
      const results = await Promise.all(some.map((one) => this.#check(one, [], 0, true, this.#owed.take(one))));
      if (results.every((result) => result === null)) return;
    }
  }

  async #check(
    context: Context,
    limits: readonly RateLimit[],
    cost: number,
    isMetered: boolean,
    owed: Report | null,
  ): Promise<ChargeResult> {
    const quotas = isMetered ? { quotas: true, ...(owed && { owed: owed.units, owed_id: owed.id }) } : {};
    const sentAt = this.#runtime.ports.elapsed();
    try {
      const { json } = await this.#runtime.client.call({
        method: "POST",
        path: "/v1/ratelimit/check",
        body: JSON.stringify({ ...subjectOf(this.#runtime.settings, context), cost, limits, ...quotas }),
        timeoutMs: LIMITS_TIMEOUT_MS,
      });
      const result = parseResult(json, limits, { isMetered, cost, now: this.#runtime.ports.now() });
      if (result === null) throw unusable();
      this.reachability.succeeded();
      if (owed) this.#owed.settle(context, owed, true);
      return result;
    } catch (error) {
      if (owed) this.#owed.settle(context, owed, false);
      this.reachability.failed(error, sentAt);
      return null;
    }
  }
}

/** For a response that is JSON, but not what the endpoint responds: a proxy may have sent it. */
export function unusable(): CallError {
  return new CallError("malformed", "The response cannot be used: is url that of a Keyrack server?", 200);
}

export function subjectOf(settings: Settings, context: Context) {
  return { project_id: settings.projectId, env: context.env, key_id: context.keyId, tenant_id: context.tenantId };
}

type Charge = { isMetered: boolean; cost: number; now: number };

function parseResult(json: unknown, rules: readonly RateLimit[], { isMetered, cost, now }: Charge): ChargeResult {
  const { allowed, retry_after_seconds, policies, limited_quota: id, quotas } = (json ?? {}) as Record<string, unknown>;
  const ofRules = parseStates(policies, rules);
  const ofQuotas = isMetered ? parseQuotas(quotas) : [];
  if (typeof allowed !== "boolean" || !ofRules || !ofQuotas) return null;
  const retryAfterSeconds = isCount(retry_after_seconds) ? retry_after_seconds : null;
  const result = { allowed, states: [...ofRules, ...ofQuotas], retryAfterSeconds };
  if (typeof id !== "string") return result;
  // A key and its tenant may each have a quota of this id.
  const resets = ofQuotas.filter((state) => state.id === id && state.remaining < Math.max(1, cost));
  const resetMs = resets.some((state) => state.resetMs === 0) ? 0 : Math.max(0, ...resets.map((each) => each.resetMs));
  return { ...result, quota: { id, resetsAt: resetMs > 0 ? toWholeSecond(now + resetMs) : null } };
}

/** Periods begin with a second; the time that the response took would make each of them another one. */
function toWholeSecond(ms: number): string {
  return new Date(Math.round(ms / 1_000) * 1_000).toISOString();
}

/** Quotas as states, without a window; one that is never refilled has no reset either. */
function parseQuotas(quotas: unknown): RateLimitState[] | null {
  if (!Array.isArray(quotas)) return null;
  const states: RateLimitState[] = [];
  for (const quota of quotas) {
    const { id, amount, remaining, reset_ms } = (quota ?? {}) as Record<string, unknown>;
    const resetMs = reset_ms ?? 0;
    if (typeof id !== "string" || !RULE_ID.test(id) || !isCount(amount) || !isCount(remaining) || !isCount(resetMs))
      return null;
    states.push({ id, limit: amount, windowMs: 0, remaining, resetMs });
  }
  return states;
}

/** The counters' states in the order of `rules`; null when they do not match the rules. */
export function parseStates(policies: unknown, rules: readonly RateLimit[]): RateLimitState[] | null {
  if (!Array.isArray(policies) || policies.length !== rules.length) return null;
  const states: RateLimitState[] = [];
  for (const rule of rules) {
    const { remaining, reset_ms: resetMs } = policies.find((policy) => policy?.id === rule.id) ?? {};
    if (!isCount(remaining) || !isCount(resetMs)) return null;
    states.push({ id: rule.id, limit: rule.limit, windowMs: rule.window_ms, remaining, resetMs });
  }
  return states;
}

export function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}
