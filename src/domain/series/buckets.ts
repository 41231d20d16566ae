// The buckets of a series: minutes, hours, UTC days, or the days of a time zone, which have 23, 24 or 25 hours.
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../kernel/durations.ts";
import { failField } from "../../kernel/errors.ts";
import { isTimeZone, ZoneFormatters } from "../../kernel/time-zones.ts";

export const BUCKETS = ["minute", "hour", "day"] as const;
export type Bucket = (typeof BUCKETS)[number];

export const BUCKET_MS = { minute: MINUTE_MS, hour: HOUR_MS, day: DAY_MS } as const;
const QUARTER_MS = 15 * MINUTE_MS;

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

const dates = new ZoneFormatters({ year: "numeric", month: "2-digit", day: "2-digit" });

/** Offsets are multiples of 15 minutes, so every day starts on one; not always at midnight, which a change may skip. */
function localDays(timeZone: string): Calendar {
  const formatter = dates.of(timeZone);
  const dateOf = (ms: number): string => formatter.format(ms);
  /** The first quarter of the date that contains `ms`; `low` is on an earlier date. */
  const firstQuarter = (ms: number, low: number): number => {
    const date = dateOf(ms);
    let [before, within] = [Math.floor(low / QUARTER_MS), Math.floor(ms / QUARTER_MS)];
    while (within - before > 1) {
      const middle = Math.floor((before + within) / 2);
      if (dateOf(middle * QUARTER_MS) === date) within = middle;
      else before = middle;
    }
    return within * QUARTER_MS;
  };
  const startOf = (ms: number): number => firstQuarter(ms, ms - 26 * BUCKET_MS.hour);
  const next = (start: number): number => {
    const usual = start + BUCKET_MS.day;
    const last = dateOf(usual - QUARTER_MS);
    return last === dateOf(start) && last !== dateOf(usual) ? usual : startOf(start + 26 * BUCKET_MS.hour);
  };
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
