// Judges the limiter on one scenario of seeded traffic: against the exact log (oracle.ts), or one counter store against
// the in-process one, field by field.
import type { Counter, Verdict } from "../../src/ratelimit/counter.ts";
import { memoryCounter } from "./memory-counter.ts";
import { Oracle } from "./oracle.ts";
import { START, traffic, type Arrival } from "./traffic.ts";

export const DECISIONS_A_ROUND = 5_000;
const BATCH = 500;

export function handClock(start = START): { now: () => number; set(t: number): void; pass(ms: number): void } {
  let t = start;
  return {
    now: () => t,
    set: (to) => (t = to),
    pass: (ms) => (t += ms),
  };
}

/** A verdict without the only field in which two stores may differ. */
export function decision(verdict: Verdict): Omit<Verdict, "store"> {
  const { store: _, ...rest } = verdict;
  return rest;
}

/** Compares the decisions of one scenario with the exact log. */
export function judgeScenario(seed: number, count = DECISIONS_A_ROUND): Oracle {
  const clock = handClock();
  const counter = memoryCounter(clock.now);
  const oracle = new Oracle();
  for (const { t, request } of traffic(seed, count)) {
    clock.set(t);
    oracle.judge(t, request, counter.check(request));
  }
  return oracle;
}

/** Checks at the arrival's own time. Calls are made in order, and Redis replies in order on one connection. */
function at<T extends Verdict | Promise<Verdict>>(
  clock: { set(t: number): void },
  check: (request: Arrival["request"]) => T,
): (arrival: Arrival) => T {
  return ({ t, request }) => {
    clock.set(t);
    return check(request);
  };
}

/** The first decision in which a store differs from memory, or null. */
export async function compareScenario(
  seed: number,
  clock: { now: () => number; set(t: number): void },
  shared: Pick<Counter, "check">,
): Promise<string | null> {
  const alone = memoryCounter(clock.now);
  const arrivals = [...traffic(seed, DECISIONS_A_ROUND)];
  for (let i = 0; i < arrivals.length; i += BATCH) {
    const batch = arrivals.slice(i, i + BATCH);
    const mine = batch.map(at(clock, (request) => alone.check(request)));
    const theirs = await Promise.all(batch.map(at(clock, async (request) => shared.check(request))));
    const different = mine.findIndex((one, n) => {
      const other = theirs[n] as Verdict;
      return JSON.stringify(decision(one)) !== JSON.stringify(decision(other));
    });
    if (different >= 0)
      return `decision ${i + different}: ${JSON.stringify(mine[different])} but ${JSON.stringify(theirs[different])}`;
  }
  return null;
}
