// A clock that never runs backwards within a process: the wall clock at start plus monotonic time, slewed toward the
// wall clock. When the wall clock is set back, this one runs at half speed until both agree.
import { failField } from "../../kernel/errors.ts";

export type Clock = { now(): number };

const JUMP_MS = 5_000;
const SLEW_EVERY_MS = 1_000;

type Sources = { wall: () => number; monotonic: () => number; jumped?: (byMs: number) => void };

export function createClock({ wall, monotonic, jumped }: Sources = systemSources): Clock {
  let base = wall() - monotonic();
  let checked = monotonic();
  let last = 0;
  let remaining = 0; // the part of an earlier jump that is still being slewed: not reported again
  const slew = (at: number): void => {
    const drift = wall() - (base + at);
    if (Math.abs(drift - remaining) > JUMP_MS) jumped?.(Math.round(drift - remaining));
    const step = drift > 0 ? drift : Math.max(drift, -(at - checked) / 2);
    base += step;
    remaining = drift - step;
    checked = at;
  };
  return {
    now(): number {
      const at = monotonic();
      if (at - checked >= SLEW_EVERY_MS) slew(at);
      last = Math.max(last, Math.floor(base + at));
      return last;
    },
  };
}

/**
 * Rejects an expiry that has passed. Call it inside `mutate`: a retry that comes after the expiry gets the stored
 * response.
 */
export function requireFuture(clock: Clock, expires_at: number | null | undefined): void {
  if (typeof expires_at === "number" && expires_at <= clock.now())
    throw failField("invalid_body", "expires_at", "must be in the future");
}

export const systemSources: Sources = { wall: () => Date.now(), monotonic: () => performance.now() };
