// A clock that never runs backwards within a process: the wall clock at start plus monotonic time, slewed toward the
// wall clock. When the wall clock is set back, this one runs at half speed until both agree.
import { failField } from "../../kernel/errors.ts";

export type Clock = {
  /** Follows a wall clock that is set forward at once: for expiries and timestamps. */
  now(): number;
  /**
   * Runs at most a twentieth faster than real time: for leases and windows, which a wall clock that is set forward must
   * not end.
   */
  steady(): number;
  /** Sets the steady time back, by what an earlier process was behind. */
  setBack(ms: number): void;
};

const JUMP_MS = 5_000;
const SLEW_EVERY_MS = 1_000;
const BACKWARD_RATE = 1 / 2;
export const STEADY_FORWARD_RATE = 1 / 20;

type Sources = { wall: () => number; monotonic: () => number; jumped?: (byMs: number) => void };

export function createClock({ wall, monotonic, jumped }: Sources = systemSources): Clock {
  const now = follow({ wall, monotonic, jumped: jumped ?? (() => {}) }, Number.POSITIVE_INFINITY);
  const steady = follow({ wall, monotonic, jumped: () => {} }, STEADY_FORWARD_RATE);
  return { now: now.read, steady: steady.read, setBack: steady.setBack };
}

function follow({ wall, monotonic, jumped }: Required<Sources>, forwardRate: number) {
  let base = wall() - monotonic();
  let checked = monotonic();
  let last = 0;
  let remaining = 0; // the part of an earlier jump that is still being slewed: not reported again
  const slew = (at: number): void => {
    const drift = wall() - (base + at);
    if (Math.abs(drift - remaining) > JUMP_MS) jumped(Math.round(drift - remaining));
    const passed = at - checked;
    const step = Math.min(Math.max(drift, -passed * BACKWARD_RATE), passed * forwardRate);
    base += step;
    remaining = drift - step;
    checked = at;
  };
  const read = (): number => {
    const at = monotonic();
    if (at - checked >= SLEW_EVERY_MS) slew(at);
    last = Math.max(last, Math.floor(base + at));
    return last;
  };
  const setBack = (ms: number): void => {
    base -= ms;
    last = 0;
  };
  return { read, setBack };
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
