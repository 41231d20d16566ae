// A lease as it is on Redis: enough to give its units back to the database in any process, with any of its holdings or none.
import type { Part } from "../../kernel/quotas/allocation.ts";
import type { Metered } from "./definitions.ts";
import { RETURNABLE_MS, type NewLease } from "./leases.ts";
import type { Return } from "./takes.ts";

type LeaseRecord = {
  readonly granted: number;
  readonly end: number;
  readonly charges: readonly { readonly metered: Metered; readonly spent: readonly SpentPart[] }[];
};
type SpentPart = Part & { readonly start: number };

export function writeLease({ granted, end, charges }: NewLease): string {
  const record: LeaseRecord = {
    granted,
    end,
    charges: charges.map(({ holding, spent }) => ({
      metered: holding.metered,
      spent: spent.map(({ block, part }) => ({ ...part, start: block.period.start })),
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
    return { period: { start }, parts: [{ grant, units: given }] };
  });
}
