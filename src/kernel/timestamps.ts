// Timestamps: parsed from `YYYY-MM-DDTHH:MM[:SS[.f+]][Z|±HH:MM]`, formatted as `YYYY-MM-DDTHH:MM:SS.sssZ`. No offset
// means UTC, never local time. Digits below the millisecond are truncated, not rounded. The year must be in 1970..9999
// in UTC, after the offset is applied.
import { MINUTE_MS, SECOND_MS } from "./durations.ts";

const FORM = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?(?:Z|([+-])(\d\d):(\d\d))?$/;
/** The last moment that a timestamp can name. */
export const MS_MAX = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

/** Milliseconds since 1970, or null. */
export function parseTimestamp(text: string): number | null {
  const match = FORM.exec(text);
  if (!match) return null;
  const part = (i: number) => Number(match[i] ?? 0);
  const [year, month, day, hour, minute, second] = [part(1), part(2), part(3), part(4), part(5), part(6)];
  // 1969 because an offset can move the date by a day; Date.UTC reads the years 0 to 99 as 1900 to 1999.
  if (year < 1969 || month < 1 || month > 12 || day < 1 || day > daysIn(year, month)) return null;
  if (hour > 23 || minute > 59 || second > 59 || part(9) > 23 || part(10) > 59) return null;
  const fraction = Number((match[7] ?? "").slice(0, 3).padEnd(3, "0"));
  const offset = (part(9) * 60 + part(10)) * MINUTE_MS * (match[8] === "-" ? -1 : 1);
  const ms = Date.UTC(year, month - 1, day, hour, minute, second, fraction) - offset;
  return ms >= 0 && ms <= MS_MAX ? ms : null;
}

/** The second that was formatted last, up to its point. */
let second = { at: -1, text: "" };

/**
 * Throws RangeError outside 1970..9999. `Date` formats slowly, and rows of a list are often of one second. bench:
 * insight/audit-export
 */
export function formatTimestamp(ms: number): string {
  if (!(ms >= 0 && ms < MS_MAX + 1)) throw new RangeError("A timestamp must be in the years 1970 to 9999.");
  const at = Math.floor(ms / SECOND_MS);
  if (at !== second.at) second = { at, text: new Date(at * SECOND_MS).toISOString().slice(0, -4) };
  return `${second.text}${String(Math.floor(ms % SECOND_MS)).padStart(3, "0")}Z`;
}

export function formatTimestampOrNull(ms: number | null): string | null {
  return ms === null ? null : formatTimestamp(ms);
}

function daysIn(year: number, month: number): number {
  if (month !== 2) return [4, 6, 9, 11].includes(month) ? 30 : 31;
  return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0) ? 29 : 28;
}

/** Milliseconds of HH:MM:SS.sss from the 12th character on; negative if malformed. bench: ingest/batch, verify/load */
export function timeOfDay(text: string): number {
  if (text.charCodeAt(13) !== 58 || text.charCodeAt(16) !== 58 || text.charCodeAt(19) !== 46) return -1;
  const hours = twoDigits(text, 11);
  const minutes = twoDigits(text, 14);
  const seconds = twoDigits(text, 17);
  const hundredths = twoDigits(text, 20);
  const last = text.charCodeAt(22) - 48;
  if (!(hours < 24 && minutes < 60 && seconds < 60 && hundredths < 100 && last >= 0 && last < 10)) return -1;
  return ((hours * 60 + minutes) * 60 + seconds) * 1000 + hundredths * 10 + last;
}

/** NaN if these are not two digits. */
export function twoDigits(text: string, at: number): number {
  const tens = text.charCodeAt(at) - 48;
  const ones = text.charCodeAt(at + 1) - 48;
  return tens >= 0 && tens < 10 && ones >= 0 && ones < 10 ? 10 * tens + ones : Number.NaN;
}
