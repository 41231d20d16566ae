// A quota: a number of units for a calendar period, or forever. The same shape on the wire, on keys, tenants and plans.
export const REFILLS = ["none", "daily", "weekly", "monthly"] as const;
type Refill = (typeof REFILLS)[number];
export const OVERAGES = ["deny", "report"] as const;
export type Overage = (typeof OVERAGES)[number];

export type Quota = {
  id: string;
  amount: number;
  refill: Refill;
  /** The day of the week (1 is Monday) or month on which a period starts; null for other refills. */
  day: number | null;
  time_zone: string;
  /** Whether a request beyond the amount is refused, or only reported. */
  overage: Overage;
};

export const QUOTAS_MAX = 4;
export const AMOUNT_MAX = 1_000_000_000_000;
const DAY_MAX = { none: 0, daily: 0, weekly: 7, monthly: 31 } as const satisfies Record<Refill, number>;

/** A definition as a caller sends it. */
export type QuotaInput = Omit<Quota, "day"> & { day?: number | null | undefined };

/** Fills in the day if the caller left it out. */
export function completeQuota({ id, amount, refill, day, time_zone, overage }: QuotaInput): Quota {
  return { id, amount, refill, day: day ?? (DAY_MAX[refill] === 0 ? null : 1), time_zone, overage };
}

/** Whether the day may be combined with the refill. */
export function isDayOf(refill: Refill, day: number | null | undefined): boolean {
  return day === null || day === undefined || (day >= 1 && day <= DAY_MAX[refill]);
}

/**
 * Names the calendar of a quota: what is spent belongs to a period of one calendar. Zone names are case-insensitive.
 * Aliases stay distinct: which name is canonical depends on the version of Node.
 */
export function calendarName({ refill, day, time_zone }: Pick<Quota, "refill" | "day" | "time_zone">): string {
  return refill === "none" ? refill : `${refill}/${day ?? ""}/${time_zone.toLowerCase()}`;
}
