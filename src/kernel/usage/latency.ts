// Logarithmic histogram of durations from 0.01 ms to 10 minutes: bin b holds durations up to 0.01 × 1.2^b ms. A
// percentile is the middle of its bin, so it is off by at most 10 %.
import type { Bins } from "./sums.ts";

const RATIO = 1.2;
const MIN_MS = 0.01;
const PER_LOG = 1 / Math.log(RATIO);
/** The bin of 10 minutes. */
const BIN_MAX = Math.ceil(Math.log(600_000 / MIN_MS) * PER_LOG);

export function binOf(durationMs: number): number {
  if (durationMs <= MIN_MS) return 0;
  return Math.min(BIN_MAX, Math.ceil(Math.log(durationMs / MIN_MS) * PER_LOG));
}

function middleOf(bin: number): number {
  return bin === 0 ? MIN_MS : MIN_MS * RATIO ** (bin - 0.5);
}

/** In milliseconds, with three significant digits; null without a duration. */
export function percentile(bins: Bins, part: number): number | null {
  let total = 0;
  for (const count of bins.values()) total += count;
  if (total < 1e-6) return null;
  let below = 0;
  for (const bin of [...bins.keys()].toSorted((a, b) => a - b)) {
    below += bins.get(bin) ?? 0;
    if (below >= part * total - 1e-6) return Number(middleOf(bin).toPrecision(3));
  }
  return null;
}
