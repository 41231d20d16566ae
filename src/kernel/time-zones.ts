// The days of IANA time zones, by the rules that the runtime knows. A day may have 23, 24 or 25 hours, may start later
// than midnight if the clock skips it, and a few dates do not exist at all in a zone.
import { BoundedMap } from "./bounded-map.ts";
import { DAY_MS, MINUTE_MS } from "./durations.ts";

/** No zone is further from UTC, and no clock change is larger than a day. */
const REACH_MS = 2 * DAY_MS;

/** More than there are zones. */
const ZONES_MAX = 1_000;

const clocks = new BoundedMap<string, Intl.DateTimeFormat>({ max: ZONES_MAX });

/**
 * One formatter for each zone, however its name is spelled: a formatter has 30 KB outside the heap, which the garbage
 * collector hardly notices, so one for each request or spelling would fill the memory. Throws a RangeError if no zone
 * has this name.
 */
function clockOf(timeZone: string): Intl.DateTimeFormat {
  const name = timeZone.toLowerCase();
  let clock = clocks.get(name);
  if (!clock) {
    const time = { hourCycle: "h23", hour: "numeric", minute: "numeric", second: "numeric" } as const;
    const date = { era: "short", year: "numeric", month: "numeric", day: "numeric" } as const;
    clock = new Intl.DateTimeFormat("en-US", { ...date, ...time, timeZone });
    clocks.set(name, clock);
  }
  return clock;
}

/** Whether it is the name of a zone. An offset such as +02:00 is not. */
export function isTimeZone(name: string): boolean {
  if (!/^[A-Za-z][A-Za-z0-9_+/-]{0,63}$/.test(name)) return false;
  try {
    return clockOf(name) !== undefined;
  } catch {
    return false; // unknown to the runtime
  }
}

/** How far the zone's clocks are ahead of UTC at an instant; whole seconds. */
function offsetAt(ms: number, timeZone: string): number {
  if (timeZone === "UTC") return 0;
  const parts: Record<string, number> = {};
  for (const { type, value } of clockOf(timeZone).formatToParts(ms)) parts[type] = Number(value);
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = parts;
  return Date.UTC(year, month - 1, day, hour, minute, second) - (ms - (((ms % 1000) + 1000) % 1000));
}

/** The date in a zone as the number of days since 1970-01-01. */
export function localDate(ms: number, timeZone: string): number {
  return Math.floor((ms + offsetAt(ms, timeZone)) / DAY_MS);
}

/** The first instant of a date in a zone; of a date that does not exist there, the first instant after it. */
export function startOfDate(date: number, timeZone: string): number {
  const midnight = date * DAY_MS;
  if (timeZone === "UTC") return midnight;
  const before = offsetAt(midnight - REACH_MS, timeZone);
  const after = offsetAt(midnight + REACH_MS, timeZone);
  // The later offset first: if midnight comes twice, the clock that is further ahead reaches it first.
  for (const offset of [Math.max(before, after), Math.min(before, after)]) {
    const start = midnight - offset;
    if (offsetAt(start, timeZone) === offset) return start;
  }
  return changeBetween(midnight - REACH_MS, midnight + REACH_MS, timeZone);
}

/** The first minute after `low` at which the zone has the offset that it has at `high`. */
function changeBetween(low: number, high: number, timeZone: string): number {
  const offset = offsetAt(high, timeZone);
  let [before, within] = [Math.floor(low / MINUTE_MS), Math.ceil(high / MINUTE_MS)];
  while (within - before > 1) {
    const middle = Math.floor((before + within) / 2);
    if (offsetAt(middle * MINUTE_MS, timeZone) === offset) within = middle;
    else before = middle;
  }
  return within * MINUTE_MS;
}
