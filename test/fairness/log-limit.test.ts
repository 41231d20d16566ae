// Lines about refusals: twenty in full for each network and kind in a minute, then one summary.
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { LogLimit, type Summary } from "../../src/fairness/log-limit.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function setUp() {
  const summaries: Summary[] = [];
  const limit = new LogLimit((summary) => summaries.push(summary));
  const send = (network: string, times: number, failure = "invalid_key"): number =>
    Array.from({ length: times }, (_, i) => limit.admits(network, failure, `r${i}`)).filter(Boolean).length;
  return { limit, summaries, send };
}

it("writes twenty in full, then one summary with the count and the last id; the next minute starts again", () => {
  const { summaries, send } = setUp();
  expect([send("a", 100), send("a", 5, "rate_limited"), send("b", 3)]).toEqual([20, 5, 3]);
  vi.advanceTimersByTime(60_000);
  expect(summaries).toEqual([{ network: "a", failure: "invalid_key", count: 80, request_id: "r99" }]);
  expect(send("a", 1)).toBe(1);
  vi.advanceTimersByTime(60_000);
  expect(summaries).toHaveLength(1);
});

it("writes lines of a thousand networks in full; all others share one summary", () => {
  const { summaries, send } = setUp();
  for (let i = 0; i < 1_000; i++) expect(send(`n${i}`, 1)).toBe(1);
  for (let i = 0; i < 500; i++) expect(send(`m${i}`, 2)).toBe(0);
  expect(send("n7", 1)).toBe(1);
  vi.advanceTimersByTime(60_000);
  expect(summaries).toEqual([{ network: "others", failure: "invalid_key", count: 1_000, request_id: "r1" }]);
});

it("writes the summaries of the current minute when it is flushed, and not again", () => {
  const { limit, summaries, send } = setUp();
  send("a", 60);
  limit.flush();
  expect(summaries).toEqual([{ network: "a", failure: "invalid_key", count: 40, request_id: "r59" }]);
  send("a", 1);
  vi.advanceTimersByTime(60_000);
  expect(summaries).toHaveLength(1);
});

it("summarizes bursts of what is never written in full, and no few of them", () => {
  const { limit, summaries } = setUp();
  for (let i = 0; i < 20; i++) limit.count("few", "invalid_request", `r${i}`);
  for (let i = 0; i < 21; i++) limit.count("many", "invalid_request", `r${i}`);
  vi.advanceTimersByTime(60_000);
  expect(summaries).toEqual([{ network: "many", failure: "invalid_request", count: 21, request_id: "r20" }]);
});

it("writes one line for each key within the twenty, and summarizes the others with them", () => {
  const { limit, summaries } = setUp();
  const refuse = (key: number, id: string): boolean => limit.admits("a", "lacks_permission", id, `key${key}`);
  expect([refuse(0, "r0"), refuse(0, "r1"), refuse(0, "r2"), refuse(1, "r3")]).toEqual([true, false, false, true]);
  limit.flush();
  expect(summaries).toEqual([{ network: "a", failure: "lacks_permission", count: 2, request_id: "r2" }]);
  expect(Array.from({ length: 50 }, (_, i) => refuse(i, `s${i}`)).filter(Boolean)).toHaveLength(20);
  limit.flush();
  expect(summaries.slice(1)).toEqual([{ network: "a", failure: "lacks_permission", count: 30, request_id: "s49" }]);
});
