// What a request gets to know of the quotas that it was charged to, or that refused it.
import type { Overage } from "../../kernel/quotas/quota.ts";
import { retryAfterSeconds } from "../../kernel/ratelimit/window.ts";
import type { Verdict } from "../../ratelimit/counter.ts";
import type { Machine } from "../core/context.ts";
import type { AppliedQuota } from "./holding.ts";
import { availableOf } from "./takes.ts";

/** Where other processes hold the units that a request lacks: they give unused ones back within this time. */
const OTHERS_WAIT_MS = 10_000;

type QuotaState = {
  id: string;
  scope: "key" | "tenant";
  amount: number;
  remaining: number;
  reset_ms: number | null;
  overage: Overage;
  exceeded: boolean;
};

/** A quota that lacks units, and the milliseconds until it may have them; Infinity if waiting does not help. */
export type Refusal = { readonly id: string; readonly wait: number };
export type WithQuotas<T> = T & { limited_quota: string | null; quotas: QuotaState[] };

/**
 * The refusal by quotas. `rules`: the rate limits' verdict on one more request. Reading it may take a while, so
 * `refusedBy` is the earlier result: a holding's cached denial may have expired since.
 */
export function denial(
  ctx: Machine,
  applied: AppliedQuota[],
  refusedBy: readonly Refusal[],
  rules: Verdict,
): WithQuotas<Verdict> {
  ctx.services.quotas.metrics.denied++;
  const limiting = refusedBy.reduce((longest, one) => (one.wait > longest.wait ? one : longest));
  const ruleWait = rules.allowed ? 0 : (rules.retry_after_seconds ?? Number.POSITIVE_INFINITY) * 1_000;
  return {
    ...rules,
    allowed: false,
    retry_after_seconds: retryAfterSeconds(Math.max(limiting.wait, ruleWait)),
    limited_quota: limiting.id,
    quotas: statesOf(ctx, applied),
  };
}

/** Precondition: the holding is known. */
export function waitOf({ holding, metered: { quota } }: AppliedQuota, units: number, now: number): number {
  const { stored } = holding;
  const others = stored?.others;
  const { fromAmount, granted } = holding.usage(now);
  if (!others || units > quota.amount + granted + others.granted) return Number.POSITIVE_INFINITY;
  const wait = stored.period.end - now;
  const fromGrants = Math.min(others.unspent, others.granted);
  const ofOthers = others.unspent - fromGrants;
  const left = Math.max(0, quota.amount - fromAmount + ofOthers) + granted + fromGrants;
  return left >= units ? Math.min(wait, OTHERS_WAIT_MS) : wait;
}

export function statesOf({ services }: Machine, applied: AppliedQuota[]): QuotaState[] {
  const now = services.clock.now();
  return applied.map(({ holding, metered: { quota, scope } }) => {
    const usage = holding.usage(now);
    const end = holding.stored?.period.end ?? Number.POSITIVE_INFINITY;
    return {
      id: quota.id,
      scope,
      amount: quota.amount,
      remaining: availableOf(usage, quota),
      reset_ms: end === Number.POSITIVE_INFINITY ? null : Math.max(0, end - now),
      overage: quota.overage,
      exceeded: usage.fromAmount > quota.amount,
    };
  });
}
