// What holds for a key: per field its own value, else that of its tenant, its plan, its project. The policy feed
// resolves the same in SQL (store/queries/policy-entries.ts), so that nodes need not know of plans.
import { fail, failField } from "../../kernel/errors.ts";
import type { RateLimit } from "../../kernel/ratelimit/rule.ts";
import type { PlanRow, ProjectRow } from "../../store/schema/tables.ts";
import { parseKeyPolicy, type KeyPolicy } from "../key-policy/key-policy.ts";

type LimitsSource = "key" | "tenant" | "plan" | "project";

/** The columns that are searched, in the order of their precedence; an empty list ends the search. */
type Limits = { key: string | null; tenant: string | null; plan: string | null; project: string };

export function resolveLimits(limits: Limits): { rate_limits: RateLimit[]; rate_limits_source: LimitsSource } {
  const order = ["key", "tenant", "plan"] as const;
  const source: LimitsSource = order.find((level) => limits[level] !== null) ?? "project";
  return { rate_limits: JSON.parse(limits[source] ?? "[]") as RateLimit[], rate_limits_source: source };
}

/** Splits a key's scopes, in their order, into those that the plan's ceiling contains and the others. */
export function splitScopes(scopes: readonly string[], ceiling: string | null): { kept: string[]; dropped: string[] } {
  if (ceiling === null) return { kept: [...scopes], dropped: [] };
  const allowed = new Set(JSON.parse(ceiling) as string[]);
  return { kept: scopes.filter((scope) => allowed.has(scope)), dropped: scopes.filter((scope) => !allowed.has(scope)) };
}

/** Rejects the first scope outside the ceiling, except those that the key has already. */
export function requireWithinCeiling(
  plan: Pick<PlanRow, "scopes"> | null,
  scopes: readonly string[],
  held: readonly string[] = [],
): void {
  if (!plan) return;
  const outside = new Set(splitScopes(scopes, plan.scopes).dropped);
  const i = scopes.findIndex((scope) => outside.has(scope) && !held.includes(scope));
  if (i >= 0) throw failField("invalid_body", `scopes[${i}]`, "is not among the scopes of the tenant's plan");
}

/** An embed token grants no scope outside the ceiling. */
export function requireGrantedByPlan(plan: Pick<PlanRow, "scopes"> | null, scopes: readonly string[]): void {
  const { dropped } = splitScopes(scopes, plan?.scopes ?? null);
  const missing_scopes = [...new Set(dropped)].map((scope) => `key_scope:${scope}`);
  if (missing_scopes.length > 0) throw fail("insufficient_scope", { missing_scopes });
}

/** The project's rules for the life of a key, with that of the plan: of all bounds the earliest wins. */
export function keyPolicyOf(
  project: Pick<ProjectRow, "key_policy">,
  plan: Pick<PlanRow, "key_ttl_days"> | null,
): KeyPolicy {
  const policy = parseKeyPolicy(project.key_policy);
  const days = plan?.key_ttl_days ?? null;
  if (days === null) return policy;
  const { default_ttl_days, max_ttl_days } = policy;
  const max = Math.min(days, max_ttl_days ?? days);
  return {
    ...policy,
    max_ttl_days: max,
    default_ttl_days: default_ttl_days === null ? null : Math.min(default_ttl_days, max),
  };
}
