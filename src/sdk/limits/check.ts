// Rate limits by the control plane's check endpoint, and the RateLimit header fields
// (draft-ietf-httpapi-ratelimit-headers-11). When the counters do not respond within 250 ms the request is admitted as
// degraded, in both fail modes: a limit protects a service and must not be what takes it down.

import type { RateLimit } from "../../kernel/ratelimit/rule.ts";
import type { Client } from "../client.ts";
import type { Context, RateLimitState } from "../context.ts";
import type { Settings } from "../options.ts";
import type { Log } from "../runtime.ts";

export const LIMITS_TIMEOUT_MS = 250;

/** The result of charging a request, or null when the counters could not be reached. */
export type ChargeResult = {
  allowed: boolean;
  states: readonly RateLimitState[];
  /** Null when waiting does not help, and when allowed. */
  retryAfterSeconds: number | null;
} | null;

export type Limiter = { charge(context: Context, rules: readonly RateLimit[], cost?: number): Promise<ChargeResult> };

export class CheckLimiter implements Limiter {
  readonly #client: Client;
  readonly #settings: Settings;
  readonly #log: Log;

  constructor(client: Client, settings: Settings, log: Log) {
    this.#client = client;
    this.#settings = settings;
    this.#log = log;
  }

  async charge(context: Context, rules: readonly RateLimit[], cost = 1): Promise<ChargeResult> {
    try {
      const { json } = await this.#client.call({
        method: "POST",
        path: "/v1/ratelimit/check",
        body: JSON.stringify({ ...subjectOf(this.#settings, context), cost, limits: rules }),
        timeoutMs: LIMITS_TIMEOUT_MS,
      });
      return parseResult(json, rules);
    } catch (error) {
      const why = error instanceof Error ? error.message : "unknown";
      this.#log("debug", "rate limits cannot be checked", { why });
      return null;
    }
  }
}

export function subjectOf(settings: Settings, context: Context) {
  return { project_id: settings.projectId, env: context.env, key_id: context.keyId, tenant_id: context.tenantId };
}

function parseResult(json: unknown, rules: readonly RateLimit[]): ChargeResult {
  const { allowed, retry_after_seconds: retry, policies } = (json ?? {}) as Record<string, unknown>;
  const states = parseStates(policies, rules);
  if (typeof allowed !== "boolean" || !states) return null;
  return { allowed, states, retryAfterSeconds: isCount(retry) ? retry : null };
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

/** Rule ids contain only a-z, 0-9, dot, hyphen and underscore (validated when loaded), so quoting them is enough. */
export function rateLimitHeaders(states: readonly RateLimitState[]): Record<string, string> {
  if (states.length === 0) return {};
  const seconds = (ms: number) => Math.ceil(ms / 1000);
  return {
    "ratelimit-policy": states.map(({ id, limit, windowMs }) => `"${id}";q=${limit};w=${seconds(windowMs)}`).join(", "),
    ratelimit: states.map(({ id, remaining, resetMs }) => `"${id}";r=${remaining};t=${seconds(resetMs)}`).join(", "),
  };
}
