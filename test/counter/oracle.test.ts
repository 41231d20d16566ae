// Test 15 of the plan: the limiter against the exact log. KEYRACK_TEST_DECISIONS=10000000 runs the nightly length.
import { describe, expect, it } from "vitest";
import type { Verdict } from "../../src/counter/counter.ts";
import { MemoryCounter } from "../../src/counter/memory.ts";
import { Oracle } from "./oracle.ts";
import { decision, handClock, stores } from "./support.ts";
import { type Arrival, traffic } from "./traffic.ts";

const DECISIONS = Number(process.env["KEYRACK_TEST_DECISIONS"] ?? 1_000_000);
const EACH = 5_000;
const LONG = { timeout: 3_600_000 };

describe("the in-process counter against the exact log", () => {
  it(`never lets more than the limit through and never denies without reason, in ${DECISIONS} decisions`, LONG, () => {
    let admitted = 0;
    let denied = 0;
    for (let seed = 1; seed <= DECISIONS / EACH; seed++) {
      const clock = handClock();
      const counter = new MemoryCounter({ now: clock.now });
      const oracle = new Oracle();
      for (const { t, request } of traffic(seed, EACH)) {
        clock.set(t);
        oracle.judge(t, request, counter.check(request));
      }
      expect(oracle.wrong, `seed ${seed}`).toEqual([]);
      admitted += oracle.admitted;
      denied += oracle.denied;
    }
    expect(admitted).toBeGreaterThan(DECISIONS / 10);
    expect(denied).toBeGreaterThan(DECISIONS / 10);
  });

  it("has an oracle that notices: one unit more than the limit is found at once", () => {
    const clock = handClock();
    const counter = new MemoryCounter({ now: clock.now });
    const oracle = new Oracle();
    for (const { t, request } of traffic(7, EACH)) {
      clock.set(t);
      const loose = request.limits.map((rule) => ({ ...rule, limit: rule.limit + 1 }));
      oracle.judge(t, request, counter.check({ ...request, limits: loose }));
    }
    expect(oracle.wrong).not.toEqual([]);
  });
});

const redis = (await stores()).find(({ name }) => name === "redis");

describe.skipIf(redis === undefined)("the counter on Redis under the same clock", () => {
  const decisions = Math.max(100_000, DECISIONS / 10);

  it(`decides as the in-process one, field for field, in ${decisions} decisions`, LONG, async () => {
    const clock = handClock();
    const shared = await redis!.make(clock.now);
    for (let seed = 1; seed <= decisions / EACH; seed++) {
      const alone = new MemoryCounter({ now: clock.now });
      const arrivals = [...traffic(seed, EACH)];
      for (let i = 0; i < arrivals.length; i += 500) {
        const batch = arrivals.slice(i, i + 500);
        const mine = batch.map(at(clock, (request) => alone.check(request)));
        const theirs = await Promise.all(batch.map(at(clock, async (request) => shared.check(request))));
        expect(theirs.map(decision), `seed ${seed}, from ${i}`).toEqual(mine.map(decision));
      }
    }
  });
});

/** Asks at the arrival's own time. The calls are made in order, and Redis answers one connection in order. */
function at<T extends Verdict | Promise<Verdict>>(
  clock: { set(t: number): void },
  check: (request: Arrival["request"]) => T,
): (arrival: Arrival) => T {
  return ({ t, request }) => {
    clock.set(t);
    return check(request);
  };
}
