// The limiter compared with the exact log. `npm run prove -- limits` runs the long version.
import { describe, expect, it } from "vitest";
import { Oracle } from "../../harness/ratelimit/oracle.ts";
import { traffic } from "../../harness/ratelimit/traffic.ts";
import { compareScenario, DECISIONS_A_ROUND, judgeScenario, handClock } from "../../harness/ratelimit/scenarios.ts";
import { stores } from "../../harness/ratelimit/counters.ts";
import { memoryCounter } from "../../harness/ratelimit/memory-counter.ts";
import { ROUNDS } from "../../harness/rounds.ts";

const DECISIONS = 5_000 * ROUNDS;

describe("the in-process counter compared with the exact log", () => {
  it(`never admits more than the limit and never denies without reason, in ${DECISIONS} decisions`, () => {
    let admitted = 0;
    let denied = 0;
    for (let seed = 1; seed <= DECISIONS / DECISIONS_A_ROUND; seed++) {
      const oracle = judgeScenario(seed);
      expect(oracle.wrong, `seed ${seed}`).toEqual([]);
      admitted += oracle.admitted;
      denied += oracle.denied;
    }
    expect(admitted).toBeGreaterThan(DECISIONS / 10);
    expect(denied).toBeGreaterThan(DECISIONS / 10);
  });

  it("has an oracle that detects one unit more than the limit", () => {
    const clock = handClock();
    const counter = memoryCounter(clock.now);
    const oracle = new Oracle();
    for (const { t, request } of traffic(7, DECISIONS_A_ROUND)) {
      clock.set(t);
      const loose = request.limits.map((rule) => ({ ...rule, limit: rule.limit + 1 }));
      oracle.judge(t, request, counter.check({ ...request, limits: loose }));
    }
    expect(oracle.wrong).not.toEqual([]);
  });
});

const redis = stores().find(({ name }) => name === "redis");

describe.skipIf(redis === undefined)("the counter on Redis under the same clock", () => {
  const decisions = DECISIONS / 10;

  it(`decides like the in-process one, field by field, in ${decisions} decisions`, async () => {
    const clock = handClock();
    const shared = await redis!.make(clock.now);
    for (let seed = 1; seed <= decisions / DECISIONS_A_ROUND; seed++)
      expect(await compareScenario(seed, clock, shared), `seed ${seed}`).toBeNull();
  });
});
