// The definition of a quota: its defaults, and what names its calendar.
import { describe, expect, it } from "vitest";
import { calendarName, completeQuota, isDayOf, type QuotaInput } from "../../../src/kernel/quotas/quota.ts";

const sent: QuotaInput = { id: "calls", amount: 10, refill: "monthly", time_zone: "UTC", overage: "deny" };

describe("a quota", () => {
  it("starts its periods on the first day unless it says otherwise", () => {
    const days = (["none", "daily", "weekly", "monthly"] as const).map(
      (refill) => completeQuota({ ...sent, refill }).day,
    );
    expect(days).toEqual([null, null, 1, 1]);
    expect(completeQuota({ ...sent, day: 31 }).day).toBe(31);
  });

  it("has a day of the week or of the month, and none otherwise", () => {
    expect([isDayOf("weekly", 7), isDayOf("monthly", 31), isDayOf("daily", null), isDayOf("none", undefined)]).toEqual([
      true,
      true,
      true,
      true,
    ]);
    expect([isDayOf("weekly", 8), isDayOf("monthly", 32), isDayOf("daily", 1), isDayOf("none", 1)]).toEqual([
      false,
      false,
      false,
      false,
    ]);
  });

  it("changes its calendar with refill, day and time zone, and with nothing else", () => {
    const quota = completeQuota(sent);
    const name = calendarName(quota);
    expect(calendarName({ ...quota, amount: 1, overage: "report" } as never)).toBe(name);
    const others = [{ refill: "weekly" as const }, { day: 2 }, { time_zone: "Europe/Berlin" }];
    expect(others.map((change) => calendarName({ ...quota, ...change })).includes(name)).toBe(false);
    for (const time_zone of ["UTC", "Europe/Berlin", "US/Eastern", "Asia/Kolkata", "Asia/Calcutta"])
      expect(calendarName({ ...quota, time_zone: time_zone.toLowerCase() })).toBe(
        calendarName({ ...quota, time_zone }),
      );
    expect(calendarName({ refill: "none", day: null, time_zone: "Europe/Berlin" })).toBe("none");
  });
});
