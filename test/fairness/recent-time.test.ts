// Time used in the last minute, on an injected clock.
import { expect, it } from "vitest";
import { RecentTime } from "../../src/fairness/recent-time.ts";

it("is forgotten within two minutes, evenly in the second", () => {
  let now = 10 * 60_000;
  const recent = new RecentTime(() => now);
  recent.add("a", 100);
  recent.add("a", 100);
  recent.add("b", 50);
  now += 59_000;
  expect([recent.of("a"), recent.of("b"), recent.of("c")]).toEqual([200, 50, 0]);
  now += 1_000;
  expect(recent.of("a")).toBe(200);
  now += 45_000;
  expect(recent.of("a")).toBeCloseTo(50);
  recent.add("a", 10);
  now += 15_000;
  expect([recent.of("a"), recent.of("b")]).toEqual([10, 0]);
  now += 10 * 60_000;
  expect(recent.of("a")).toBe(0);
});
