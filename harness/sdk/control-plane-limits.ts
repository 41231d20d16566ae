// The counters of the fake control plane: an exact sliding log for every rule, and leases booked at their end
// (docs/design/0012-counters-and-leases.md).

import { randomUUID } from "node:crypto";
import type { RateLimit } from "../../src/kernel/ratelimit/rule.ts";
import type { FakeResponse } from "./exchange.ts";

type Body = Record<string, unknown>;
type Booking = { from: number; until: number; units: number; lease: string | null };

const LEASE_MAX_MS = 10_000;

export class FakeLimits {
  // Whole milliseconds, as on the server: the sum of a fraction and a window can exceed both by a rounding error.
  now: () => number = () => Math.floor(performance.now());
  supportsLeases = true;
  /** What is left of the quota "calls" that every metered key has; null: quotas cannot be charged. */
  quotaLeft: number | null = null;
  /** Listed before it, with units left. */
  otherQuota: Body | null = null;
  readonly checks: Body[] = [];
  readonly leases: { want: number; granted: number; returned: number }[] = [];
  /** By id: each unit is charged once, as on the server. */
  readonly #owedBefore = new Map<unknown, number>();
  readonly #booked = new Map<string, Booking[]>();
  readonly #open = new Map<string, { ends: number; keys: string[]; row: { returned: number } }>();

  respond(verb: string, body: Body): FakeResponse {
    if (verb === "return") return this.#return(body);
    const rules = body["limits"] as RateLimit[];
    if (body["quotas"] === true && this.quotaLeft !== null) return this.#meter(body, this.quotaLeft);
    if (!Array.isArray(rules) || rules.length === 0)
      return { status: 400, json: { error: { code: "invalid_request" } } };
    if (verb === "check") return this.#check(body, rules);
    if (verb === "lease" && this.supportsLeases) return this.#lease(body, rules);
    return { status: 404, json: { error: { code: "not_found", message: "No such route." } } };
  }

  #meter(body: Body, left: number): FakeResponse {
    this.checks.push(body);
    const cost = Number(body["cost"]);
    const owed = Number(body["owed"] ?? 0);
    const after = left - Math.max(0, owed - (this.#owedBefore.get(body["owed_id"]) ?? 0));
    if (body["owed_id"]) this.#owedBefore.set(body["owed_id"], owed);
    const allowed = after >= cost;
    this.quotaLeft = allowed ? after - cost : after;
    const quota = { id: "calls", amount: 10, remaining: Math.max(0, this.quotaLeft), reset_ms: 5_000 };
    const json = {
      object: "ratelimit_result",
      allowed,
      retry_after_seconds: allowed ? null : 5,
      policies: [],
      limited_quota: allowed ? null : "calls",
      quotas: [
        ...(this.otherQuota ? [this.otherQuota] : []),
        { ...quota, scope: "key", overage: "deny", exceeded: after < 0 },
      ],
    };
    return { status: 200, json };
  }

  #check(body: Body, rules: RateLimit[]): FakeResponse {
    this.checks.push(body);
    const cost = Number(body["cost"] ?? 1);
    const now = this.now();
    const limited = rules.find((rule) => this.#left(body, rule, now) < cost);
    if (!limited) for (const rule of rules) this.#book(body, rule, now, now + rule.window_ms, cost, null);
    const json = {
      object: "ratelimit_result",
      allowed: !limited,
      limited_policy: limited?.id ?? null,
      retry_after_seconds: limited ? Math.max(1, Math.ceil(this.#reset(body, limited, now) / 1000)) : null,
      store: "memory",
      policies: this.#policies(body, rules, now),
    };
    return { status: 200, json };
  }

  #lease(body: Body, rules: RateLimit[]): FakeResponse {
    const now = this.now();
    const want = Number(body["want"]);
    const granted = Math.max(0, Math.min(want, ...rules.map((rule) => this.#left(body, rule, now))));
    const life = Math.min(LEASE_MAX_MS, ...rules.map((rule) => Math.floor(rule.window_ms / 10)));
    const lease_id = randomUUID();
    const row = { want, granted, returned: 0 };
    this.leases.push(row);
    const ends = now + life;
    if (granted > 0) {
      for (const rule of rules) this.#book(body, rule, now, ends + rule.window_ms, granted, lease_id);
      this.#open.set(lease_id, { ends, keys: rules.map((rule) => nameOf(body, rule)), row });
    }
    const policies = this.#policies(body, rules, now);
    return { status: 200, json: { object: "ratelimit_lease", granted, lease_id, expires_in_ms: life, policies } };
  }

  #return(body: Body): FakeResponse {
    const id = String(body["lease_id"]);
    const lease = this.#open.get(id);
    const unused = Number(body["unused"]);
    this.#open.delete(id);
    if (lease && this.now() < lease.ends) {
      lease.row.returned = unused;
      for (const key of lease.keys) {
        const booking = this.#booked.get(key)?.find((one) => one.lease === id);
        if (booking) booking.units -= unused;
      }
    }
    return { status: 200, json: { object: "ratelimit_lease", returned: lease ? unused : 0 } };
  }

  #policies(body: Body, rules: RateLimit[], now: number) {
    return rules.map((rule) => ({
      id: rule.id,
      limit: rule.limit,
      window_ms: rule.window_ms,
      remaining: Math.max(0, this.#left(body, rule, now)),
      reset_ms: Math.ceil(this.#reset(body, rule, now)),
    }));
  }

  #left(body: Body, rule: RateLimit, now: number): number {
    return rule.limit - this.#live(body, rule, now).reduce((sum, booking) => sum + booking.units, 0);
  }

  #reset(body: Body, rule: RateLimit, now: number): number {
    const live = this.#live(body, rule, now);
    return live.length === 0 ? 0 : Math.min(...live.map((booking) => booking.until)) - now;
  }

  #live(body: Body, rule: RateLimit, now: number): Booking[] {
    const live = (this.#booked.get(nameOf(body, rule)) ?? []).filter((booking) => booking.until > now);
    this.#booked.set(nameOf(body, rule), live);
    return live;
  }

  #book(body: Body, rule: RateLimit, from: number, until: number, units: number, lease: string | null): void {
    this.#live(body, rule, from).push({ from, until, units, lease });
  }
}

function nameOf(body: Body, rule: RateLimit): string {
  const subject = (rule.scope === "key" ? body["key_id"] : body["tenant_id"]) ?? "-";
  return [body["project_id"], body["env"], rule.scope, subject, rule.id, rule.window_ms].join("/");
}
