import { describe, expect, it, vi } from "vitest";
import { formatDuration, formatRelative, formatShare, nameTimes } from "../../../src/web/shared/format.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../../src/kernel/durations.ts";

describe("relative times", () => {
  it.each([
    [36 * HOUR_MS, "in 1 day"],
    [1.5 * HOUR_MS, "in 1 hour"],
    [45 * DAY_MS, "in 1 month"],
    [10.5 * DAY_MS, "in 10 days"],
    [23.7 * HOUR_MS, "in 23 hours"],
    [44.5 * MINUTE_MS, "in 44 minutes"],
    [45_000, "in 45 seconds"],
  ])("rounds a time to come down: %d ms", (ms, text) => {
    expect(formatRelative(ms, 0)).toBe(text);
  });

  it.each([
    [7 * DAY_MS, "in 7 days"],
    [DAY_MS, "in 1 day"],
    [12 * HOUR_MS, "in 12 hours"],
    [HOUR_MS, "in 1 hour"],
    [30 * MINUTE_MS, "in 30 minutes"],
  ])("shows a time to come as it was set some seconds ago: %d ms", (ms, text) => {
    expect(formatRelative(ms - 3_000, 0)).toBe(text);
  });

  it.each([
    [-45_000, "45 sec ago"],
    [-44.5 * MINUTE_MS, "44 min ago"],
    [23.7 * HOUR_MS, "in 23 hr"],
    [3 * DAY_MS, "in 3 days"],
    [45 * DAY_MS, "in 1 mo"],
    [-800 * DAY_MS, "2 yr ago"],
  ])("abbreviates the unit for a narrow column: %d ms", (ms, text) => {
    expect(formatRelative(ms, 0, true)).toBe(text);
  });

  it("counts whole units of what has passed", () => {
    expect(formatRelative(0, 7 * DAY_MS - 2_000)).toBe("6 days ago");
    expect(formatRelative(0, 5_000)).toBe("just now");
    expect(formatDuration(DAY_MS - 1)).toBe("23 hours");
  });
});

it("names times apart that are alike without their day", () => {
  const hours = Array.from({ length: 25 }, (_, i) => i * HOUR_MS);
  const names = nameTimes(
    hours,
    (ms) => `${(ms / HOUR_MS) % 24}:00`,
    (ms) => `Day ${Math.floor(ms / DAY_MS)}, ${(ms / HOUR_MS) % 24}:00`,
  );
  expect([names[0], names[1], names[24]]).toEqual(["Day 0, 0:00", "1:00", "Day 1, 0:00"]);
  expect(new Set(names).size).toBe(25);
});

it("shows every share of a column with one decimal", () => {
  expect([0, 0.0704, 0.5, 1].map(formatShare)).toEqual(["0.0%", "7.0%", "50.0%", "100.0%"]);
});

it("names UTC months as they are billed also where another calendar is usual", async () => {
  const { DateTimeFormat } = Intl;
  vi.spyOn(Intl, "DateTimeFormat").mockImplementation(function (_locale, options) {
    return new DateTimeFormat("fa-IR-u-nu-latn", options);
  });
  // Another instance: a formatter is made once.
  const again = "../../../src/web/shared/format.ts?again";
  const { formatDate, formatMonth } = (await import(again)) as typeof import("../../../src/web/shared/format.ts");
  const november = Date.UTC(2026, 10, 1);
  expect(formatDate(november)).toContain("1405");
  expect(formatMonth(november)).toContain("2026");
});
