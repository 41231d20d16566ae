// A lease as it is on Redis: enough to give its units back to the database in any process, with any of its holdings or
// none.
import type { Owner } from "../../fairness/owners.ts";
import { MINUTE_MS } from "../../kernel/durations.ts";
import type { Part } from "../../kernel/quotas/allocation.ts";
import { putReceipt, unitsOfReceipt } from "./receipts.ts";
import type { Store } from "../../store/store.ts";
import { record } from "../core/record.ts";
import type { Metered } from "./definitions.ts";
import type { Spent } from "./blocks.ts";
import type { AppliedQuota } from "./holding.ts";
import type { Return } from "./takes.ts";

export const RETURNABLE_MS = MINUTE_MS;

export type LeasedQuota = AppliedQuota & { readonly spent: Spent };
export type NewLease = {
  readonly id: string;
  readonly workspace_id: string;
  readonly granted: number;
  readonly end: number;
  readonly charges: readonly LeasedQuota[];
};

type LeaseRecord = {
  readonly granted: number;
  readonly end: number;
  readonly charges: readonly { readonly metered: Metered; readonly spent: readonly SpentPart[] }[];
};
type SpentPart = Omit<Part, "end"> & { readonly start: number };

export function writeLease({ granted, end, charges }: NewLease): string {
  const record: LeaseRecord = {
    granted,
    end,
    charges: charges.map(({ metered, spent }) => ({
      metered,
      spent: spent.map(({ block, part: { grant, units } }) => ({ grant, units, start: block.period.start })),
    })),
  };
  return JSON.stringify(record);
}

/** What goes back to each balance: the last units first, as in the process that granted them. */
export function returnsOf(text: string, unused: number, now: number) {
  const { granted, end, charges } = JSON.parse(text) as LeaseRecord;
  const units = now >= end + RETURNABLE_MS ? 0 : Math.max(0, Math.min(unused, granted));
  return { units, charges: charges.map(({ metered, spent }) => ({ metered, returns: lastOf(spent, units) })) };
}

function lastOf(spent: readonly SpentPart[], units: number): Return[] {
  let left = units;
  return spent.toReversed().map(({ grant, units: size, start }) => {
    const given = Math.min(size, left);
    left -= given;
    const end = Number.POSITIVE_INFINITY; // not known here; the database knows it
    return { period: { start }, parts: [{ grant, units: given, end }] };
  });
}

/** Longer than a lease can be returned. */
const RETURN_KEPT_MS = 10 * MINUTE_MS;

/**
 * Whether the lease is returned for the first time, committed before its units can be spent again. Redis alone does not
 * know: after a failover or a restart with older data it has the record again. False also when that cannot be stored:
 * the units then count as spent.
 */
export function claimReturn(store: Store, owner: Owner, lease_id: string, now: number): Promise<boolean> {
  const receipt = { name: `quota return\n${lease_id}`, now };
  const claimed = record(
    { store },
    async (tx) => {
      if ((await unitsOfReceipt(tx, receipt)) !== undefined) return false;
      await putReceipt(tx, receipt, 0, RETURN_KEPT_MS);
      return true;
    },
    { owner, locks: [`lease/${lease_id}`] },
  );
  return claimed.catch(() => false);
}
