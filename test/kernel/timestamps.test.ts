import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { formatTimestamp, parseTimestamp } from "../../src/kernel/timestamps.ts";
import { propertyRuns } from "../../harness/rounds.ts";

const LAST = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

describe("parseTimestamp", () => {
  for (const [text, iso] of [
    ["2026-11-14T09:30", "2026-11-14T09:30:00.000Z"],
    ["2026-11-14T09:30Z", "2026-11-14T09:30:00.000Z"],
    ["2026-11-14T09:30:15", "2026-11-14T09:30:15.000Z"],
    ["2026-11-14T09:30:15.1Z", "2026-11-14T09:30:15.100Z"],
    ["2026-11-14T09:30:15.9999999999Z", "2026-11-14T09:30:15.999Z"],
    ["2026-11-14T09:30+05:45", "2026-11-14T03:45:00.000Z"],
    ["2026-11-14T09:30:15.25-23:59", "2026-11-15T09:29:15.250Z"],
    ["2026-11-14T09:30-00:00", "2026-11-14T09:30:00.000Z"],
    ["2024-02-29T00:00Z", "2024-02-29T00:00:00.000Z"],
    ["2000-02-29T00:00Z", "2000-02-29T00:00:00.000Z"],
    ["1970-01-01T00:00Z", "1970-01-01T00:00:00.000Z"],
    ["1969-12-31T23:30-01:00", "1970-01-01T00:30:00.000Z"],
    ["9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"],
  ] as const) {
    it(`parses ${text} as ${iso}`, () => {
      expect(parseTimestamp(text)).toBe(Date.parse(iso));
    });
  }

  for (const [why, text] of [
    ["nothing", ""],
    ["a date alone", "2026-11-14"],
    ["an hour alone", "2026-11-14T09"],
    ["a space for the T", "2026-11-14 09:30Z"],
    ["a small t", "2026-11-14t09:30Z"],
    ["a small z", "2026-11-14T09:30z"],
    ["a point with no digits", "2026-11-14T09:30:15.Z"],
    ["a comma", "2026-11-14T09:30:15,5Z"],
    ["a fraction of a minute", "2026-11-14T09:30.5Z"],
    ["an offset without a colon", "2026-11-14T09:30+0100"],
    ["an offset in hours", "2026-11-14T09:30+01"],
    ["an offset of 24 hours", "2026-11-14T09:30+24:00"],
    ["an offset of 60 minutes", "2026-11-14T09:30+01:60"],
    ["two offsets", "2026-11-14T09:30Z+01:00"],
    ["a leap second", "2016-12-31T23:59:60Z"],
    ["hour 24", "2026-11-14T24:00Z"],
    ["minute 60", "2026-11-14T09:60Z"],
    ["month 0", "2026-00-14T09:30Z"],
    ["month 13", "2026-13-14T09:30Z"],
    ["day 0", "2026-11-00T09:30Z"],
    ["31 November", "2026-11-31T09:30Z"],
    ["29 February in a common year", "2026-02-29T09:30Z"],
    ["29 February 2100", "2100-02-29T09:30Z"],
    ["a year before 1970", "1969-12-31T23:59:59.999Z"],
    ["a year that an offset moves before 1970", "1970-01-01T00:30+01:00"],
    ["a year that an offset moves past 9999", "9999-12-31T23:30-01:00"],
    ["year 70", "0070-01-01T00:00Z"],
    ["a fifth digit in the year", "12026-11-14T09:30Z"],
    ["a signed year", "+002026-11-14T09:30Z"],
    ["a newline behind", "2026-11-14T09:30Z\n"],
    ["other digits", "２０２６-11-14T09:30Z"],
  ] as const) {
    it(`rejects ${why}`, () => {
      expect(parseTimestamp(text)).toBeNull();
    });
  }

  it("never throws", () => {
    const near = fc.string({ unit: fc.constantFrom(..."0129-T:.Z+".split("")), maxLength: 30 });
    fc.assert(
      fc.property(fc.oneof(fc.string(), near), (text) => {
        const ms = parseTimestamp(text);
        expect(ms === null || (ms >= 0 && ms <= LAST)).toBe(true);
      }),
    );
  });

  it("accepts a date exactly when it exists in the calendar", () => {
    const parts = fc.tuple(fc.integer({ min: 1970, max: 9999 }), fc.nat(13), fc.nat(32));
    fc.assert(
      fc.property(parts, ([year, month, day]) => {
        const date = `${year}-${String(month).padStart(2, "0")}-${String(day).padStart(2, "0")}`;
        const real = new Date(Date.UTC(year, month - 1, day)).toISOString().startsWith(date);
        expect(parseTimestamp(`${date}T00:00Z`) !== null).toBe(real);
      }),
      { numRuns: propertyRuns(2_000) },
    );
  });
});

describe("formatTimestamp", () => {
  it("round-trips to the same millisecond, with any offset", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: LAST }), (ms) => {
        expect(formatTimestamp(ms)).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
        expect(parseTimestamp(formatTimestamp(ms))).toBe(ms);
      }),
    );
  });

  it("formats as Date does, also another moment of the same second", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: LAST - 1_000 }),
        fc.double({ min: 0, max: 999, noNaN: true }),
        (ms, later) => {
          for (const at of [ms, ms + later, ms]) expect(formatTimestamp(at)).toBe(new Date(at).toISOString());
        },
      ),
    );
  });

  it("rejects years of more than four digits", () => {
    for (const ms of [-1, LAST + 1, Number.NaN]) expect(() => formatTimestamp(ms)).toThrow(RangeError);
  });
});
