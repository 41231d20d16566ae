// Spends units of several quotas: of all of them or of none. What is not in memory is taken from the database, for all
// requests that wait.
import { fail } from "../../kernel/errors.ts";
import type { Machine } from "../core/context.ts";
import type { Spent } from "./blocks.ts";
import type { AppliedQuota } from "./holding.ts";
import { waitOf, type Refusal } from "./results.ts";

/**
 * A request that loses its units to others this often is refused for a second. Each attempt takes units for all
 * requests that wait, so one is enough unless a request under another amount of the balance is faster.
 */
const ATTEMPTS_MAX = 100;
/** What was spent of each quota, or who refused. */
export type SpendResult = Spent[] | { readonly refusedBy: readonly Refusal[] };

/** Spends at least `units` and up to `most` from every quota, or nothing if one of them has too little. */
export async function spendAll(
  ctx: Machine,
  applied: AppliedQuota[],
  units: number,
  most = units,
): Promise<SpendResult> {
  const spent = trySpend(applied, units, most, ctx.services.clock.now());
  return spent ?? fetchAndSpend(ctx, applied, units, most);
}

/**
 * Spends at least `units`, and up to `most` of an equal share of those who wait. Returns undefined if the database must
 * be read first. Caution: must stay synchronous between checking and spending.
 */
export function trySpend(applied: AppliedQuota[], units: number, most: number, now: number): SpendResult | undefined {
  let [count, isUnknown] = [most, false];
  for (const one of applied) {
    const availability = availabilityOf(one, units, now);
    if (availability === "denied") return { refusedBy: refusalsOf(applied, units, now) };
    isUnknown ||= availability === "unknown";
    const share = Math.floor(one.holding.spendable(one.metered.quota) / Math.max(1, one.holding.demands.size));
    count = Math.min(count, Math.max(units, share));
  }
  return isUnknown ? undefined : applied.map(({ holding, metered }) => holding.spend(metered.quota, count, now));
}

export const availabilityOf = ({ holding, metered }: AppliedQuota, units: number, now: number) =>
  holding.availability(metered.quota, units, now);

export function refusalsOf(applied: AppliedQuota[], units: number, now: number): Refusal[] {
  const refusing = applied.filter((one) => availabilityOf(one, units, now) === "denied");
  return refusing.map((one) => ({ id: one.metered.quota.id, wait: waitOf(one, units, now) }));
}

async function fetchAndSpend(ctx: Machine, applied: AppliedQuota[], units: number, most: number): Promise<SpendResult> {
  const { quotas, clock } = ctx.services;
  const demand = { units, most };
  try {
    for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
      const missing = applied.filter((one) => availabilityOf(one, units, clock.now()) === "unknown");
      for (const { holding } of missing) holding.demands.add(demand);
      await Promise.all(missing.map((one) => quotas.fetch(one, units)));
      const spent = trySpend(applied, units, most, clock.now());
      if (spent !== undefined) return spent;
    }
    throw fail("unavailable");
  } finally {
    // Not before it has its units, or they would be shed.
    for (const { holding } of applied) holding.demands.delete(demand);
  }
}
