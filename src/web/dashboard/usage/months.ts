// UTC months, as they are billed.
import { formatMonth } from "../../shared/format.ts";
import type { UsageSeries } from "../api/records.ts";

/** "Nov 2026", of a day in it. */
export const monthName = (day: string): string => formatMonth(Date.parse(day));

/** The start of the month, `before` months ago. */
export function monthStart(now: number, before: number): string {
  const date = new Date(now);
  return new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() - before, 1)).toISOString();
}

/** The requests of UTC days, summed by month. */
export function byMonth(usage: UsageSeries): UsageSeries {
  const months = usage.buckets.map((start) => start.slice(0, 7));
  const starts = usage.buckets.filter((_, i) => months[i] !== months[i - 1]);
  const sum = (values: readonly number[]): number[] =>
    starts.map((start) =>
      values.reduce((all, value, i) => (start.startsWith(months[i] ?? "?") ? all + value : all), 0),
    );
  const summed = <T extends { requests: number[] }>(of: T): T => ({ ...of, requests: sum(of.requests) });
  return { ...usage, buckets: starts, series: usage.series.map(summed), other: usage.other && summed(usage.other) };
}
