import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  lapsesAt,
  leaseEnd,
  leaseSpan,
  limitedBy,
  oldestCounted,
  resetMs,
  retryAfterSeconds,
  spanAt,
  type Window,
} from "../../../src/kernel/ratelimit/window.ts";
import { propertyRuns } from "../../../harness/rounds.ts";

const times = fc.integer({ min: 0, max: 8_000_000_000_000 });
const windows = fc.integer({ min: 1_000, max: 2_678_400_000 });
const rules: fc.Arbitrary<Window> = fc.record({
  window_ms: windows,
  algorithm: fc.constantFrom("sliding" as const, "fixed" as const),
});
const many = { numRuns: propertyRuns(5_000) };

describe("spans", () => {
  it("are exact: doubles equal integer arithmetic for every time and window", () => {
    fc.assert(
      fc.property(times, windows, (t, window_ms) => {
        expect(spanAt({ algorithm: "sliding", window_ms }, t)).toBe(Number((BigInt(t) * 60n) / BigInt(window_ms)));
        expect(spanAt({ algorithm: "fixed", window_ms }, t)).toBe(Number(BigInt(t) / BigInt(window_ms)));
      }),
      many,
    );
  });

  it("are exact at the edges, where a rounding error would appear", () => {
    fc.assert(
      fc.property(times, windows, (near, window_ms) => {
        const rule = { algorithm: "sliding", window_ms } as const;
        const span = spanAt(rule, near);
        const first = Number((BigInt(span) * BigInt(window_ms) + 59n) / 60n);
        expect(spanAt(rule, first)).toBe(span);
        expect(spanAt(rule, first - 1)).toBe(span - 1);
      }),
      many,
    );
  });

  it("stop counting at lapsesAt and not a millisecond earlier", () => {
    fc.assert(
      fc.property(times, rules, (t, rule) => {
        const span = spanAt(rule, t);
        const lapse = lapsesAt(rule, span);
        expect(oldestCounted(rule, spanAt(rule, lapse))).toBeGreaterThan(span);
        expect(oldestCounted(rule, spanAt(rule, lapse - 1))).toBeLessThanOrEqual(span);
      }),
      many,
    );
  });

  it("count everything younger than the window, and nothing older than 61/60 of it", () => {
    fc.assert(
      fc.property(times, windows, (t, window_ms) => {
        const rule = { algorithm: "sliding", window_ms } as const;
        const lapse = lapsesAt(rule, spanAt(rule, t));
        expect(lapse - t).toBeGreaterThan(window_ms);
        expect(lapse - t).toBeLessThan(window_ms + window_ms / 60 + 1);
      }),
      many,
    );
  });

  it("reset a daily fixed window at midnight UTC", () => {
    const rule = { algorithm: "fixed", window_ms: 86_400_000 } as const;
    const noon = Date.UTC(2026, 10, 14, 12);
    expect(lapsesAt(rule, spanAt(rule, noon))).toBe(Date.UTC(2026, 10, 15));
    expect(resetMs(rule, noon, 0, 0)).toBe(43_200_000);
  });
});

describe("leases", () => {
  it("last at most a tenth of every window, at most ten seconds, and never into the next fixed window", () => {
    fc.assert(
      fc.property(times, fc.array(rules, { minLength: 1, maxLength: 8 }), (now, all) => {
        const end = leaseEnd(all, now);
        expect(end).toBeGreaterThan(now);
        expect(end - now).toBeLessThanOrEqual(10_000);
        for (const rule of all) {
          expect((end - now) * 10).toBeLessThanOrEqual(rule.window_ms);
          const leaves = spanAt(rule, end - 1) - spanAt(rule, now);
          expect(leaves).toBeLessThanOrEqual(rule.algorithm === "fixed" ? 0 : 6);
        }
      }),
      many,
    );
  });

  it("count until a whole window after their end, and book at most six sub-windows ahead", () => {
    fc.assert(
      fc.property(times, rules, (now, rule) => {
        const end = leaseEnd([rule], now);
        const span = leaseSpan(rule, now, end);
        expect(span - spanAt(rule, now)).toBeLessThanOrEqual(6);
        const until = rule.algorithm === "sliding" ? end + rule.window_ms + 1 : end;
        expect(lapsesAt(rule, span)).toBeGreaterThanOrEqual(until);
      }),
      many,
    );
  });
});

describe("denials", () => {
  it("name the rule with the longest wait, the first of equals", () => {
    expect(limitedBy([0, 0], 2)).toBe(-1);
    expect(limitedBy([5, 9, 9, 0], 4)).toBe(1);
    expect(limitedBy([5, Infinity, 9], 3)).toBe(1);
    expect(limitedBy([0, 0, 7], 2)).toBe(-1);
  });

  it("round the wait up to at least a second, and have none where waiting never helps", () => {
    expect(retryAfterSeconds(1)).toBe(1);
    expect(retryAfterSeconds(1_000)).toBe(1);
    expect(retryAfterSeconds(1_001)).toBe(2);
    expect(retryAfterSeconds(Infinity)).toBeNull();
  });
});
