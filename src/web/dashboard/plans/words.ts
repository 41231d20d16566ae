// What a plan says, in words.
import { formatNumber, plural } from "../../shared/format.ts";
import type { Plan } from "../api/records.ts";
import { ruleText, type Rules } from "../keys/limits.ts";

export function limitsText(rules: Rules | null): string {
  if (rules === null) return "Project default";
  const [first, ...more] = rules;
  if (!first) return "No limits";
  return `${ruleText(first)}${more.length > 0 ? ` and ${more.length} more` : ""}`;
}

const REFILLS: Partial<Record<string, string>> = {
  none: "once",
  daily: "a day",
  weekly: "a week",
  monthly: "a month",
};

/** "1,000 a month". */
export const quotaText = ({ amount, refill, overage }: Plan["quotas"][number]): string =>
  `${formatNumber(amount)} ${REFILLS[refill] ?? refill}${overage === "report" ? ", only reported" : ""}`;

export const keysText = (max: number | null): string => (max === null ? "Any number" : `At most ${formatNumber(max)}`);

export const daysText = (days: number | null): string =>
  days === null ? "Project default" : `At most ${plural(days, "day")}`;
