// Quotas as they are stored on keys, tenants and plans, and what the policy feed says of them: not their amounts, only
// whether one applies and whether one denies.
import { CAP, NO_CAPS } from "../../kernel/policy/capabilities.ts";
import { completeQuota, type Quota, type QuotaInput } from "../../kernel/quotas/quota.ts";

/** Null: the record has no quotas of its own. */
export type GivenQuotas = readonly QuotaInput[] | null | undefined;

export function storedQuotas(quotas: readonly QuotaInput[] | null): string | null {
  return quotas === null ? null : JSON.stringify(quotas.map(completeQuota));
}

export function parseQuotas(stored: string | null | undefined): Quota[] {
  return stored ? (JSON.parse(stored) as Quota[]) : [];
}

/** `deny`: nodes that do not charge quotas do not get the key. */
type Meter = "none" | "report" | "deny";

export function meterOf(stored: string | null | undefined): Meter {
  const quotas = parseQuotas(stored);
  if (quotas.length === 0) return "none";
  return quotas.some(({ overage }) => overage === "deny") ? "deny" : "report";
}

/** The capability that keys with these quotas make a project use. */
export function meterCaps(...stored: (string | null | undefined)[]): number {
  return stored.some((quotas) => meterOf(quotas) !== "none") ? CAP.quotas : NO_CAPS;
}

/** Whether nodes learn of a change: not where only the amounts of quotas differ. */
export function reachesNodes(differing: object | null, before: string | null, after: string | null): boolean {
  return meterOf(before) !== meterOf(after) || Object.keys(differing ?? {}).some((name) => name !== "quotas");
}
