// The server's clock, by which times are shown. A browser's clock may be wrong by hours.
import { signal } from "@preact/signals";

const TOLERANCE_MS = 2_000;
const TICK_MS = 15_000;

const offsetMs = signal(0);

/** Changes from time to time, so that "5 minutes ago" stays true. */
export const tick = signal(Date.now());
setInterval(() => {
  tick.value = Date.now();
}, TICK_MS);

/** The header has whole seconds, so a small difference is none. */
export function learnServerTime(date: string | null): void {
  const difference = Date.parse(date ?? "") - Date.now();
  if (Number.isFinite(difference)) offsetMs.value = Math.abs(difference) > TOLERANCE_MS ? difference : 0;
}

export const serverNow = (): number => Date.now() + offsetMs.value;
