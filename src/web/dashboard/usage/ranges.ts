// The time ranges of the charts of requests.
import { signal } from "@preact/signals";
import { useLayoutEffect } from "preact/hooks";
import type { RouteInput } from "../../../client.ts";
import {
  formatClock,
  formatDate,
  formatDay,
  formatDayAndClock,
  formatUtcDate,
  nameTimes,
} from "../../shared/format.ts";
import { serverNow } from "../api/clock.ts";
import type { Read } from "../api/query.ts";
import type { UsageSeries } from "../api/records.ts";
import { monthName, monthStart } from "./months.ts";
import { DAY_MS, HOUR_MS } from "../../../kernel/durations.ts";

export type SeriesQuery = NonNullable<RouteInput<"GET /v1/usage/series">["query"]>;

const MONTHS = 12;

export const RANGES = [
  ["24h", "Last 24 hours"],
  ["7d", "Last 7 days"],
  ["30d", "Last 30 days"],
  ["12m", "Last 12 months"],
] as const;
export type RangeName = (typeof RANGES)[number][0];

export const spanWords = (range: RangeName): string =>
  (RANGES.find(([name]) => name === range)?.[1] ?? "").toLowerCase();

/** Ranges longer than this server keeps hours (KEYRACK_SERIES_HOURS). They are shown by UTC days, which it has. */
const byUtcDays = signal<ReadonlySet<RangeName>>(new Set());

export const isByUtcDays = (range: RangeName): boolean => byUtcDays.value.has(range);

/** Days are those of the browser's time zone, which the server sums up from hours; months are those of UTC. */
export function spanOf(range: RangeName): SeriesQuery {
  const since = (ms: number, unit: number): string =>
    new Date(Math.floor((serverNow() - ms) / unit) * unit).toISOString();
  if (range === "24h") return { bucket: "hour" };
  if (range === "12m") return { bucket: "day", from: monthStart(serverNow(), MONTHS - 1) };
  if (range === "7d")
    return isByUtcDays(range)
      ? { bucket: "day", from: since(7 * DAY_MS, DAY_MS) }
      : { bucket: "hour", from: since(7 * DAY_MS, HOUR_MS) };
  if (isByUtcDays(range)) return { bucket: "day" };
  return { bucket: "day", time_zone: new Intl.DateTimeFormat().resolvedOptions().timeZone };
}

/** Whether the server refused the range because its hours are gone, or has left out its beginning. */
function lacksHours(range: RangeName, { data, problem, isOld }: Read<UsageSeries>["state"]["value"]): boolean {
  if (isOld) return false;
  if (range === "7d") return problem?.status === 400 && problem.details.some(({ path }) => path === "from");
  return range === "30d" && data !== null && Date.parse(data.from) > serverNow() - 30 * DAY_MS;
}

/** Changes to UTC days where hours are missing, before anything is painted. */
export function useKeptHours(range: RangeName, read: Read<UsageSeries>): void {
  const isShort = !isByUtcDays(range) && lacksHours(range, read.state.value);
  useLayoutEffect(() => {
    if (isShort) byUtcDays.value = new Set([...byUtcDays.value, range]);
  }, [isShort]);
}

export function bucketNames(starts: readonly string[], range: RangeName): string[] {
  if (range === "12m") return starts.map(monthName);
  const times = starts.map((start) => Date.parse(start));
  if (isByUtcDays(range)) return times.map(formatUtcDate);
  // The first and the last hour of a day have the same time.
  if (range === "24h") return nameTimes(times, formatClock, formatDayAndClock);
  return times.map(range === "7d" ? formatDayAndClock : formatDate);
}

/** Short names for the axis: the years of its days are known. */
export function axisNames(starts: readonly string[], range: RangeName): string[] {
  if (range !== "30d" || isByUtcDays(range)) return bucketNames(starts, range);
  return starts.map((start) => formatDay(Date.parse(start)));
}
