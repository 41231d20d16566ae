// Periods of quotas: calendar days, weeks and months of IANA time zones.
import { describe, expect, it } from "vitest";
import { periodAfter, periodAt, type Calendar } from "../../../src/kernel/quotas/period.ts";
import { isTimeZone, localDate, startOfDate } from "../../../src/kernel/time-zones.ts";

const at = (text: string): number => Date.parse(text);

function shown(calendar: Calendar, now: string): string[] {
  const { start, end } = periodAt(calendar, at(now));
  return [start, end].map((ms) => new Date(ms).toISOString());
}

const daily = (time_zone: string): Calendar => ({ refill: "daily", day: null, time_zone });
const weekly = (day: number, time_zone = "UTC"): Calendar => ({ refill: "weekly", day, time_zone });
const monthly = (day: number, time_zone = "UTC"): Calendar => ({ refill: "monthly", day, time_zone });

describe("a period", () => {
  it.each<[string, Calendar, string, string, string]>([
    ["day", daily("UTC"), "2026-11-16T15:00:00Z", "2026-11-16T00:00:00.000Z", "2026-11-17T00:00:00.000Z"],
    ["week from Monday", weekly(1), "2026-11-16T00:00:00Z", "2026-11-16T00:00:00.000Z", "2026-11-23T00:00:00.000Z"],
    ["week from Sunday", weekly(7), "2026-11-16T00:00:00Z", "2026-11-15T00:00:00.000Z", "2026-11-22T00:00:00.000Z"],
    [
      "last ms of a week",
      weekly(1),
      "2026-11-15T23:59:59.999Z",
      "2026-11-09T00:00:00.000Z",
      "2026-11-16T00:00:00.000Z",
    ],
    ["month", monthly(1), "2026-11-16T15:00:00Z", "2026-11-01T00:00:00.000Z", "2026-12-01T00:00:00.000Z"],
    [
      "month before its day",
      monthly(15),
      "2026-01-14T15:00:00Z",
      "2025-12-15T00:00:00.000Z",
      "2026-01-15T00:00:00.000Z",
    ],
    [
      "month without a 31st",
      monthly(31),
      "2026-02-15T00:00:00Z",
      "2026-01-31T00:00:00.000Z",
      "2026-02-28T00:00:00.000Z",
    ],
    [
      "after a short month",
      monthly(31),
      "2026-02-28T00:00:00Z",
      "2026-02-28T00:00:00.000Z",
      "2026-03-31T00:00:00.000Z",
    ],
    ["leap year", monthly(30), "2028-02-29T12:00:00Z", "2028-02-29T00:00:00.000Z", "2028-03-30T00:00:00.000Z"],
    [
      "31st in Berlin, which changed its clocks meanwhile",
      monthly(31, "Europe/Berlin"),
      "2026-11-15T00:00:00Z",
      "2026-10-30T23:00:00.000Z",
      "2026-11-29T23:00:00.000Z",
    ],
    [
      "day of 25 hours",
      daily("Europe/Berlin"),
      "2026-10-25T12:00:00Z",
      "2026-10-24T22:00:00.000Z",
      "2026-10-25T23:00:00.000Z",
    ],
    [
      "day of 23 hours",
      daily("Europe/Berlin"),
      "2026-03-29T12:00:00Z",
      "2026-03-28T23:00:00.000Z",
      "2026-03-29T22:00:00.000Z",
    ],
    [
      "day that starts at 1:00",
      daily("Asia/Beirut"),
      "2026-03-29T12:00:00Z",
      "2026-03-28T22:00:00.000Z",
      "2026-03-29T21:00:00.000Z",
    ],
    [
      "zone of 45 minutes",
      daily("Asia/Kathmandu"),
      "2026-06-01T00:00:00Z",
      "2026-05-31T18:15:00.000Z",
      "2026-06-01T18:15:00.000Z",
    ],
    [
      "day before one that does not exist",
      daily("Pacific/Apia"),
      "2011-12-30T05:00:00Z",
      "2011-12-29T10:00:00.000Z",
      "2011-12-30T10:00:00.000Z",
    ],
    [
      "date that comes twice",
      daily("America/St_Johns"),
      "2010-11-07T02:45:00Z",
      "2010-11-07T02:30:00.000Z",
      "2010-11-08T03:30:00.000Z",
    ],
  ])("is a calendar %s", (_name, calendar, now, start, end) => {
    expect(shown(calendar, now)).toEqual([start, end]);
  });

  it("has no end where nothing is refilled", () => {
    const none: Calendar = { refill: "none", day: null, time_zone: "Europe/Berlin" };
    expect(periodAt(none, at("2026-11-16T00:00:00Z"))).toEqual({ start: 0, end: Number.POSITIVE_INFINITY });
  });

  it("is never reopened by a clock that goes back", () => {
    const start = at("2026-12-01T00:00:00Z");
    const period = periodAfter(monthly(1), start, at("2026-11-30T23:00:00Z"));
    expect(period).toEqual({ start, end: at("2027-01-01T00:00:00Z") });
  });

  it("follows the one before without gap or overlap, for years of every kind of calendar", () => {
    const zones = [
      "UTC",
      "Europe/Berlin",
      "America/St_Johns",
      "Asia/Beirut",
      "Africa/Casablanca",
      "Australia/Lord_Howe",
    ];
    for (const zone of zones) {
      for (const calendar of [daily(zone), weekly(3, zone), monthly(30, zone), monthly(31, zone)]) {
        let { start, end } = periodAt(calendar, at("2025-01-01T00:00:00Z"));
        for (let i = 0; i < 60; i++) {
          const inside = [start, Math.floor((start + end) / 2), end - 1].map((ms) => periodAt(calendar, ms));
          expect(inside.every((one) => one.start === start && one.end === end)).toBe(true);
          ({ start, end } = periodAt(calendar, end));
          expect(start).toBe(inside[0]?.end);
        }
      }
    }
  });

  it("starts at the first instant of its local date", () => {
    for (let date = 20_000; date < 20_800; date += 7) {
      const start = startOfDate(date, "Africa/Casablanca");
      expect([localDate(start, "Africa/Casablanca"), localDate(start - 1, "Africa/Casablanca")]).toEqual([
        date,
        date - 1,
      ]);
    }
  });
});

describe("a time zone", () => {
  it("is an IANA name", () => {
    const names = ["UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Etc/GMT+3"];
    expect(names.filter((name) => !isTimeZone(name))).toEqual([]);
  });

  it("is neither an offset nor an unknown name", () => {
    const names = ["", "+02:00", "Mars/Olympus", "Europe/Berlin\n", "x".repeat(100)];
    expect(names.filter((name) => isTimeZone(name))).toEqual([]);
  });
});
