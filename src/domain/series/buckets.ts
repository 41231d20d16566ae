// The buckets of a series: minutes, hours, UTC days, or the days of a time zone, which have 23, 24 or 25 hours.
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../kernel/durations.ts";
import { failField } from "../../kernel/errors.ts";
import { isTimeZone, localDate, startOfDate } from "../../kernel/time-zones.ts";

export const BUCKETS = ["minute", "hour", "day"] as const;
export type Bucket = (typeof BUCKETS)[number];

export const BUCKET_MS = { minute: MINUTE_MS, hour: HOUR_MS, day: DAY_MS } as const;

/** Finds the starts of buckets. */
export type Calendar = {
  /** The start of the bucket that contains this time. */
  startOf(ms: number): number;
  /** The start of the bucket after the one that starts at `start`. */
  next(start: number): number;
  /** Whether its buckets are days of a zone other than UTC. */
  readonly isLocal: boolean;
};

export function calendarOf(bucket: Bucket, timeZone: string): Calendar {
  if (bucket === "day" && timeZone !== "UTC") return localDays(timeZone);
  const size = BUCKET_MS[bucket];
  return { startOf: (ms) => ms - (ms % size), next: (start) => start + size, isLocal: false };
}

export function requireTimeZone(name: string): void {
  if (!isTimeZone(name))
    throw failField("invalid_query", "time_zone", "must be an IANA time zone such as Europe/Berlin");
}

function localDays(timeZone: string): Calendar {
  const startOf = (ms: number): number => startOfDate(localDate(ms, timeZone), timeZone);
  const next = (start: number): number => startOfDate(localDate(start, timeZone) + 1, timeZone);
  return { startOf, next, isLocal: true };
}

/** The starts of the buckets from `from` to `to`, and the end of the last. Null above the maximum. */
export function edgesOf(calendar: Calendar, from: number, to: number, max: number): number[] | null {
  const edges = [calendar.startOf(from)];
  while ((edges.at(-1) as number) < to) {
    if (edges.length > max) return null;
    edges.push(calendar.next(edges.at(-1) as number));
  }
  return edges;
}
