// Sums of requests, and the text in which the parts of an hour or day are stored: JSON [[part, requests, errors, units,
// [bin, count, …]], …], where a part is a minute or a quarter of the hour, and the bins are those of latency.ts.

export type Bins = Map<number, number>;

export type Sums = {
  requests: number;
  errors: number;
  units: number;
  /** The histogram of durations; absent if none is kept. */
  bins?: Bins | undefined;
};

export type Parts = Map<number, Sums>;

type StoredPart = [part: number, requests: number, errors: number, units: number, bins?: number[]];

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

export function addToPart(parts: Parts, part: number, sums: Sums): void {
  const found = parts.get(part);
  if (found) addSums(found, sums);
  else parts.set(part, copySums(sums));
}

export function encodeParts(parts: Parts): string {
  const stored = [...parts]
    .toSorted(([a], [b]) => a - b)
    .map(([part, { requests, errors, units, bins }]): StoredPart => {
      return bins ? [part, requests, errors, units, encodeBins(bins)] : [part, requests, errors, units];
    });
  return JSON.stringify(stored);
}

export function decodeParts(text: string): Parts {
  const parts: Parts = new Map();
  for (const [part, requests, errors, units, bins] of JSON.parse(text) as StoredPart[])
    parts.set(part, { requests, errors, units, bins: bins && decodeBins(bins) });
  return parts;
}

function encodeBins(bins: Bins): number[] {
  return [...bins].toSorted(([a], [b]) => a - b).flat();
}

export function decodeBins(flat: readonly number[]): Bins {
  const bins: Bins = new Map();
  for (let i = 0; i < flat.length; i += 2) bins.set(flat[i] as number, flat[i + 1] as number);
  return bins;
}
