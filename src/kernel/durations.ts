// Lengths of time in milliseconds. A day of a calendar may be longer or shorter: time-zones.ts.
export const SECOND_MS = 1_000;
export const MINUTE_MS = 60 * SECOND_MS;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;

/** The latest stored time to believe: the clocks of several hosts differ by less than an hour. */
export const latestCredible = (now: number): number => now + HOUR_MS;

/** Whether a stored time comes from a clock that was wrong. */
export const isFuture = (at: number, now: number): boolean => at > latestCredible(now);

/** The UTC day of a time, counted from 1970. */
export const utcDay = (ms: number): number => Math.floor(ms / DAY_MS);
