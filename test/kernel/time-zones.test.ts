// What the names of time zones cost: a formatter has memory that the garbage collector hardly notices.
import { afterEach, describe, expect, it, vi } from "vitest";
import { calendarOf } from "../../src/domain/series/buckets.ts";
import { periodAt } from "../../src/kernel/quotas/period.ts";
import { isTimeZone } from "../../src/kernel/time-zones.ts";

/** The same zone in 256 spellings. */
const spellings = Array.from({ length: 256 }, (_, bits) =>
  [..."asia/kathmandu"].map((char, i) => ((bits >> i) & 1 ? char.toUpperCase() : char)).join(""),
);

describe("a time zone", () => {
  afterEach(() => vi.restoreAllMocks());

  it("is read by one formatter for quotas and one for series, however often and in whatever spelling it is used", () => {
    const made = vi.spyOn(Intl, "DateTimeFormat");
    for (const time_zone of spellings) {
      expect(isTimeZone(time_zone)).toBe(true);
      periodAt({ refill: "daily", day: null, time_zone }, 0);
      calendarOf("day", time_zone).startOf(0);
    }
    expect(made.mock.calls.length).toBeLessThanOrEqual(2);
  });
});
