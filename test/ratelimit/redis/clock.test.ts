// Rate limits on a Redis whose clock is set back, or that fails over to one whose clock is behind.
import { describe, expect, it } from "vitest";
import type { RateLimit } from "../../../src/kernel/ratelimit/rule.ts";
import { ask, fixed, sliding, stores } from "../../../harness/ratelimit/counters.ts";
import { handClock } from "../../../harness/ratelimit/scenarios.ts";
import { HOUR_MS, MINUTE_MS } from "../../../src/kernel/durations.ts";

const WINDOW = 10_000;
const LIMIT = 5;

for (const { name, make } of stores().filter((store) => store.name === "redis")) {
  describe(`a clock of ${name} that is set back`, () => {
    /** A rule that is used up, and the calls that it refuses or admits. */
    const usedUp = async (rule: RateLimit, start?: number) => {
      const clock = handClock(start);
      const counter = await make(clock.now);
      expect((await counter.check(ask([rule], { cost: LIMIT }))).allowed).toBe(true);
      const check = async (cost = 1) => {
        const { allowed, retry_after_seconds, policies } = await counter.check(ask([rule], { cost }));
        return { allowed, wait_s: retry_after_seconds ?? 0, reset_ms: policies[0]!.reset_ms };
      };
      return { clock, counter, check };
    };

    for (const rule of [sliding(LIMIT, WINDOW), fixed(LIMIT, WINDOW)])
      for (const back of [3 * WINDOW, 5 * MINUTE_MS, 24 * HOUR_MS])
        it(`delays a ${rule.algorithm} rule for one window, set back by ${back / 1_000} s`, async () => {
          // A sixtieth is the precision of a sliding rule, and a tenth is how far ahead leases are counted.
          const most = rule.algorithm === "fixed" ? WINDOW : (WINDOW * 67) / 60;
          const { clock, check } = await usedUp(rule);
          clock.pass(-back);
          const first = await check(0);
          expect(first.allowed).toBe(false);
          expect(first.reset_ms).toBeLessThanOrEqual(most);
          expect(first.wait_s).toBe(Math.ceil(first.reset_ms / 1_000));
          clock.pass(first.reset_ms - 1);
          expect(await check()).toEqual({ allowed: false, wait_s: 1, reset_ms: 1 });
          clock.pass(1);
          expect((await check(LIMIT)).allowed).toBe(true);
          expect((await check()).allowed).toBe(false);
        });

    it("admits nothing twice: a sliding rule counts a lease for a window after its end", async () => {
      const rule = sliding(LIMIT, WINDOW);
      const clock = handClock();
      const counter = await make(clock.now);
      const { granted, expires_in_ms } = await counter.lease({ ...ask([rule]), want: LIMIT });
      expect(granted).toBe(LIMIT);
      clock.pass(-HOUR_MS);
      expect((await counter.check(ask([rule]))).allowed).toBe(false);
      clock.pass(expires_in_ms + WINDOW);
      expect((await counter.check(ask([rule]))).allowed).toBe(false);
      clock.pass(WINDOW / 60);
      expect((await counter.check(ask([rule]))).allowed).toBe(true);
    });

    it("admits nothing twice in a fixed window that begins again", async () => {
      const start = 1_000 * WINDOW;
      const { clock, check } = await usedUp(fixed(LIMIT, WINDOW), start);
      clock.pass(-50);
      expect(await check()).toEqual({ allowed: false, wait_s: 11, reset_ms: WINDOW + 50 });
      clock.set(start + WINDOW - 1);
      expect((await check()).allowed).toBe(false);
      clock.pass(1);
      expect((await check()).allowed).toBe(true);
    });

    it("keeps older units where they are, and counts those of the present beside the moved ones", async () => {
      const rule = sliding(LIMIT, WINDOW);
      const clock = handClock(1_000 * WINDOW);
      const counter = await make(clock.now);
      const left = async (cost: number) => (await counter.check(ask([rule], { cost }))).policies[0]!.remaining;
      expect(await left(1)).toBe(4);
      clock.pass(8_000);
      expect(await left(1)).toBe(3);
      clock.pass(-6_000);
      expect(await left(1)).toBe(2);
      clock.pass(8_166);
      expect(await left(0)).toBe(2);
      clock.pass(1); // the first
      expect(await left(0)).toBe(3);
      clock.pass(2_000); // the third, spent 2 s after the first
      expect(await left(0)).toBe(4);
      clock.pass(1_000); // the second, moved to the end of the longest lease
      expect(await left(0)).toBe(5);
    });
  });
}
