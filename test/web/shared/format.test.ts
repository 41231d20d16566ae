import { describe, expect, it } from "vitest";
import { formatDuration, formatRelative } from "../../../src/web/shared/format.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

describe("relative times", () => {
  it("rounds what is to come to the nearest unit", () => {
    expect(formatRelative(7 * DAY_MS - 2_000, 0)).toBe("in 7 days");
    expect(formatRelative(12 * HOUR_MS - 2_000, 0)).toBe("in 12 hours");
    expect(formatRelative(DAY_MS - 2_000, 0)).toBe("in 24 hours");
    expect(formatRelative(6.4 * DAY_MS, 0)).toBe("in 6 days");
  });

  it("counts whole units of what has passed", () => {
    expect(formatRelative(0, 7 * DAY_MS - 2_000)).toBe("6 days ago");
    expect(formatRelative(0, 5_000)).toBe("just now");
    expect(formatDuration(DAY_MS - 1)).toBe("23 hours");
  });
});
