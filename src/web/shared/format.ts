// Numbers, times and durations as people read them. Numbers and dates follow the browser's locale; words are English.
type Format = (value: number) => string;

/** Formatters take milliseconds to make, so each is made when it is first used. */
function lazily(make: () => { format: Format }): Format {
  let made: { format: Format } | undefined;
  return (value) => (made ??= make()).format(value);
}

const numbers = (options: Intl.NumberFormatOptions): Format => lazily(() => new Intl.NumberFormat(undefined, options));
const times = (options: Intl.DateTimeFormatOptions): Format =>
  lazily(() => new Intl.DateTimeFormat(undefined, options));

export const formatNumber: Format = numbers({});
export const formatCompact: Format = numbers({ notation: "compact", maximumFractionDigits: 1 });
export const formatPercent: Format = numbers({ style: "percent", maximumFractionDigits: 1 });
/** In a column, where all have a decimal. */
export const formatShare: Format = numbers({
  style: "percent",
  minimumFractionDigits: 1,
  maximumFractionDigits: 1,
});
export const formatDate: Format = times({ dateStyle: "medium" });
export const formatUtcDate: Format = times({ dateStyle: "medium", timeZone: "UTC" });
/** "Nov 10", for an axis. */
export const formatDay: Format = times({ month: "short", day: "numeric" });
/** "Nov 2026", of a UTC month as it is billed: a month of another calendar has other days. */
export const formatMonth: Format = times({ month: "short", year: "numeric", timeZone: "UTC", calendar: "gregory" });
export const formatClock: Format = times({ timeStyle: "short" });
/** "Nov 10, 4:00 AM": the year is known. */
export const formatDayAndClock: Format = times({ month: "short", day: "numeric", hour: "numeric", minute: "2-digit" });
export const formatLocal: Format = times({ dateStyle: "medium", timeStyle: "medium" });

/** Names of times: those that would have the same name get a longer one. */
export function nameTimes(times: readonly number[], short: Format, long: Format): string[] {
  const names = times.map(short);
  return times.map((time, i) => {
    const name = names[i] ?? "";
    return names.indexOf(name) === names.lastIndexOf(name) ? name : long(time);
  });
}

/** "1 key", "3 keys". */
export const plural = (count: number, one: string, many = `${one}s`): string =>
  `${formatNumber(count)} ${count === 1 ? one : many}`;

/** Local time, and UTC for comparison with logs. */
export function formatAbsolute(ms: number): string {
  return `${formatLocal(ms)} (${new Date(ms).toISOString().replace(/\.\d+/, "")})`;
}

/** `short`: the same for one and for many. */
const UNITS: readonly [ms: number, name: string, short?: string][] = [
  [31_536_000_000, "year", "yr"],
  [2_592_000_000, "month", "mo"],
  [86_400_000, "day"],
  [3_600_000, "hour", "hr"],
  [60_000, "minute", "min"],
  [1_000, "second", "sec"],
];

/** `slackOf`: how much of a unit may be missing from it. */
function inUnits(ms: number, slackOf: (unit: number) => number, isShort = false): string {
  const [unit, name, short] = UNITS.find(([size]) => ms + slackOf(size) >= size) ?? [1_000, "second", "sec"];
  const count = Math.floor((ms + slackOf(unit)) / unit);
  return isShort && short ? plural(count, short, short) : plural(count, name);
}

/** The largest unit that fits, rounded down: "3 days", "45 seconds"; "0.4 seconds" below one. */
export function formatDuration(ms: number): string {
  const span = Math.max(0, ms);
  return span < 1_000 ? `${(span / 1_000).toFixed(1)} seconds` : inUnits(span, () => 0);
}

/** Seconds have passed since a time was set: 7 days or 30 minutes just set are still shown as such. */
const justSet = (unit: number): number => Math.max(unit / 100, Math.min(unit / 10, 5_000));

/**
 * "just now", "5 minutes ago", "in 3 days"; short: "5 min ago". Rounded down, so that no deadline looks later than it
 * is.
 */
export function formatRelative(ms: number, nowMs: number, isShort = false): string {
  const distance = ms - nowMs;
  if (Math.abs(distance) < 10_000) return "just now";
  return distance < 0 ? `${inUnits(-distance, () => 0, isShort)} ago` : `in ${inUnits(distance, justSet, isShort)}`;
}

/** How long to wait, rounded up. */
export function formatWait(seconds: number): string {
  if (seconds <= 90) return plural(Math.max(1, Math.ceil(seconds)), "second");
  const minutes = Math.ceil(seconds / 60);
  return minutes <= 90 ? plural(minutes, "minute") : plural(Math.ceil(minutes / 60), "hour");
}
