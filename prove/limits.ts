// The limiter against the exact log: nothing over a limit in any true window, no denial without a reason; and the same
// decisions from Redis as from memory, field for field.
import type { Counter, Verdict } from "../src/ratelimit/counter.ts";
import { MemoryCounter } from "../src/ratelimit/memory/counter.ts";
import { RedisCounter } from "../src/ratelimit/redis/counter.ts";
import { deleteKeys, findRedis, ownPrefix } from "../harness/databases/redis.ts";
import { rounds, type Campaign, type RunOptions, type Tally } from "./campaign.ts";
import { Oracle } from "../harness/ratelimit/oracle.ts";
import { START, traffic, type Arrival } from "../harness/ratelimit/traffic.ts";

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

/** A verdict without the one field in which two stores may differ. */
export function decision(verdict: Verdict): Omit<Verdict, "store"> {
  const { store: _, ...rest } = verdict;
  return rest;
}

/** One scenario's decisions, judged. */
export function judgeScenario(seed: number, count = DECISIONS_A_ROUND): Oracle {
  const clock = handClock();
  const counter = new MemoryCounter({ now: clock.now });
  const oracle = new Oracle();
  for (const { t, request } of traffic(seed, count)) {
    clock.set(t);
    oracle.judge(t, request, counter.check(request));
  }
  return oracle;
}

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

/** The first batch in which a store decided otherwise than memory, or null. */
export async function compareScenario(
  seed: number,
  clock: { now: () => number; set(t: number): void },
  shared: Pick<Counter, "check">,
): Promise<string | null> {
  const alone = new MemoryCounter({ now: clock.now });
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

async function inMemory(options: RunOptions, tally: Tally): Promise<void> {
  for (const seed of rounds(options, tally)) {
    await new Promise((resolve) => setImmediate(resolve)); // a signal to end is heard between rounds
    const oracle = judgeScenario(seed);
    for (const what of oracle.wrong) tally.failed(seed, what);
    tally.count("decisions", DECISIONS_A_ROUND);
    tally.count("admitted", oracle.admitted);
    tally.count("denied", oracle.denied);
  }
}

async function onRedis(options: RunOptions, tally: Tally): Promise<void> {
  const redis = await findRedis();
  if (redis === null) {
    tally.skipped = "no Redis was found or could be started";
    return;
  }
  const prefix = ownPrefix();
  const clock = handClock();
  const counter = new RedisCounter({ urls: [redis.url], prefix, timeoutMs: 20_000, now: clock.now });
  try {
    if (!(await counter.ready(5_000))) throw new Error("Redis did not connect");
    for (const seed of rounds(options, tally)) {
      const different = await compareScenario(seed, clock, counter);
      if (different !== null) tally.failed(seed, `Redis and memory differ at ${different}`);
      tally.count("decisions", DECISIONS_A_ROUND);
    }
  } finally {
    counter.close();
    await deleteKeys(redis.url, prefix);
    await redis.stop();
  }
}

export const limits: Campaign = {
  name: "limits",
  promise: "P5",
  claim: "No window of a sliding limit ever admits more than the limit, and no denial is without a reason.",
  rounds: 2_000,
  round: `${DECISIONS_A_ROUND} decisions`,
  backends: ["memory", "redis"],
  async run(options, tally) {
    if (options.backend === "memory") await inMemory(options, tally);
    else await onRedis(options, tally);
  },
};
