// How `keyrack usage series` shows a series: a table, and on a terminal a sparkline.
import { describe, expect, it } from "vitest";
import { seriesText, sparkline } from "../../src/cli/commands/usage/usage.ts";

const points = (requests: number[]) => {
  const total = requests.reduce((sum, value) => sum + value, 0);
  const zeros = requests.map(() => 0);
  return { requests, errors: zeros, units: requests, total: { requests: total, errors: 0, units: total } };
};
const head = {
  object: "usage_series" as const,
  bucket: "hour" as const,
  from: "2026-11-16T08:00:00.000Z",
  to: "2026-11-16T10:00:00.000Z",
  time_zone: "UTC",
  as_of: "2026-11-16T10:00:00.000Z",
  overflow: false,
  buckets: ["2026-11-16T08:00:00.000Z", "2026-11-16T09:00:00.000Z"],
};

describe("a series in a terminal", () => {
  it("has one bar for each bucket, at most sixty, and a visible one for any traffic", () => {
    expect(sparkline([0, 1, 50, 100])).toBe("▁▂▅█");
    expect(sparkline([0, 0])).toBe("▁▁");
    expect(sparkline(Array.from({ length: 720 }, () => 1))).toHaveLength(60);
  });

  it("lists groups with the others and the total, and a sparkline only on a terminal", () => {
    const series = {
      ...head,
      group_by: "tenant",
      overflow: true,
      series: [
        { group: "t", label: "acme\u001b[2J", ...points([1, 4]) },
        { group: null, label: null, ...points([2, 0]) },
      ],
      other: points([0, 3]),
      total: points([3, 7]),
    };
    const lines = seriesText(series, false).split("\n");
    expect(lines[0]?.split(/\s+/)).toEqual(["TENANT", "REQUESTS", "ERRORS", "UNITS"]);
    expect(lines.slice(1, 5).map((line) => line.split(/\s+/).slice(0, 2))).toEqual([
      ["acme\\u001b[2J", "5"],
      ["(none)", "2"],
      ["(other)", "3"],
      ["(total)", "10"],
    ]);
    expect(lines.at(-1)).toBe("as of 2026-11-16T10:00:00.000Z; some groups were counted together");
    expect(seriesText(series, true)).toContain("5         0       5      ▃█");
  });

  it("lists the buckets of a series without groups", () => {
    const series = { ...head, group_by: "none", series: [], other: null, total: points([3, 7]) };
    expect(seriesText(series, false).split("\n").slice(1, 4)).toEqual([
      "2026-11-16T08:00Z  3         0       3",
      "2026-11-16T09:00Z  7         0       7",
      "(total)            10        0       10",
    ]);
  });
});
