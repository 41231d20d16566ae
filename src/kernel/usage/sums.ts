// Sums of requests, and the text in which the parts of an hour or day are stored: JSON [[slot, requests, errors, units,
// [bin, count, …]], …], where a slot is a minute or a quarter of the hour, and the bins are those of latency.ts.

export type Bins = Map<number, number>;

export type Sums = {
  requests: number;
  errors: number;
  units: number;
  /** The histogram of durations; absent where none is kept. */
  bins?: Bins | undefined;
};

export type Slots = Map<number, Sums>;

type StoredSlot = [slot: number, requests: number, errors: number, units: number, bins?: number[]];

/** `sign` -1 subtracts. */
export function addSums(to: Sums, from: Sums, sign = 1): void {
  to.requests += sign * from.requests;
  to.errors += sign * from.errors;
  to.units += sign * from.units;
  if (!from.bins) return;
  to.bins ??= new Map();
  for (const [bin, count] of from.bins) to.bins.set(bin, (to.bins.get(bin) ?? 0) + sign * count);
}

export function copySums({ bins, ...sums }: Sums): Sums {
  return { ...sums, bins: bins && new Map(bins) };
}

export function addToSlot(slots: Slots, slot: number, sums: Sums): void {
  const found = slots.get(slot);
  if (found) addSums(found, sums);
  else slots.set(slot, copySums(sums));
}

export function encodeSlots(slots: Slots): string {
  const stored = [...slots]
    .toSorted(([a], [b]) => a - b)
    .map(([slot, { requests, errors, units, bins }]): StoredSlot => {
      return bins ? [slot, requests, errors, units, encodeBins(bins)] : [slot, requests, errors, units];
    });
  return JSON.stringify(stored);
}

export function decodeSlots(text: string): Slots {
  const slots: Slots = new Map();
  for (const [slot, requests, errors, units, bins] of JSON.parse(text) as StoredSlot[])
    slots.set(slot, { requests, errors, units, bins: bins && decodeBins(bins) });
  return slots;
}

function encodeBins(bins: Bins): number[] {
  return [...bins].toSorted(([a], [b]) => a - b).flat();
}

export function decodeBins(flat: readonly number[]): Bins {
  const bins: Bins = new Map();
  for (let i = 0; i < flat.length; i += 2) bins.set(flat[i] as number, flat[i + 1] as number);
  return bins;
}
