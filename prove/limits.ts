// The limiter compared with the exact log: nothing over a limit in any true window, no denial without a reason; and the
// same decisions from Redis as from memory, field by field.
import { deleteKeys, findRedis, ownPrefix } from "../harness/databases/redis.ts";
import { compareScenario, DECISIONS_A_ROUND, handClock, judgeScenario } from "../harness/ratelimit/scenarios.ts";
import { RedisCounter } from "../src/ratelimit/redis/counter.ts";
import { rounds, type Campaign, type RunOptions, type Tally } from "./campaign.ts";

async function inMemory(options: RunOptions, tally: Tally): Promise<void> {
  for (const seed of rounds(options, tally)) {
    await new Promise((resolve) => setImmediate(resolve)); // handles signals between rounds
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
