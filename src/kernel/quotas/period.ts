// The periods of a quota: aligned to the calendar of its time zone, not to when it was made. Caution: use `periodAfter`
// with what is stored, because a clock that goes back must not reopen a past period.
import { DAY_MS } from "../durations.ts";
import { localDate, startOfDate } from "../time-zones.ts";
import type { Quota } from "./quota.ts";

export type Calendar = Pick<Quota, "refill" | "day" | "time_zone">;

/** From `start` up to, not including, `end`; a quota that is never refilled has one without an end. */
export type Period = { readonly start: number; readonly end: number };

const ENDLESS: Period = Object.freeze({ start: 0, end: Number.POSITIVE_INFINITY });

/** 1970-01-01 was a Thursday. */
const FIRST_WEEKDAY = 4;

export function periodAt(calendar: Calendar, now: number): Period {
  const { refill, time_zone } = calendar;
  if (refill === "none") return ENDLESS;
  let first = firstDate(calendar, localDate(now, time_zone));
  let next = nextDate(calendar, first);
  let end = startOfDate(next, time_zone);
  // If the clock goes back across midnight, a date begins a second time after the next one.
  while (end <= now) {
    first = next;
    next = nextDate(calendar, first);
    end = startOfDate(next, time_zone);
  }
  return { start: startOfDate(first, time_zone), end };
}

/** The period at `now`, but never earlier than the one that began at `start`. */
export function periodAfter(calendar: Calendar, start: number, now: number): Period {
  return periodAt(calendar, Math.max(start, now));
}

/** The first date of the period that contains a date. */
function firstDate({ refill, day }: Calendar, date: number): number {
  if (refill === "weekly") return date - mod(weekdayOf(date) - (day ?? 1), 7);
  if (refill !== "monthly") return date;
  const month = monthOf(date);
  const first = dateIn(month, day ?? 1);
  return first <= date ? first : dateIn(month - 1, day ?? 1);
}

function nextDate({ refill, day }: Calendar, first: number): number {
  if (refill === "weekly") return first + 7;
  return refill === "monthly" ? dateIn(monthOf(first) + 1, day ?? 1) : first + 1;
}

/** 1 is Monday. */
function weekdayOf(date: number): number {
  return mod(date + FIRST_WEEKDAY - 1, 7) + 1;
}

/** Months since year 0. */
function monthOf(date: number): number {
  const at = new Date(date * DAY_MS);
  return at.getUTCFullYear() * 12 + at.getUTCMonth();
}

/** A day of a month; its last day if the month is shorter. */
function dateIn(month: number, day: number): number {
  const first = firstOf(month);
  return first + Math.min(day, firstOf(month + 1) - first) - 1;
}

/** Date.UTC reads years below 100 as 19xx, so the year is set apart. */
function firstOf(month: number): number {
  return new Date(0).setUTCFullYear(0, month, 1) / DAY_MS;
}

function mod(value: number, by: number): number {
  return ((value % by) + by) % by;
}
