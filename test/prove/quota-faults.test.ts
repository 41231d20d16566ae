// The short version of `npm run prove -- quotas`, continued: the loss of Redis, and a restore.
import { describe, expect, it } from "vitest";
import { hasRedis } from "../../harness/databases/redis.ts";
import { quotasCampaign } from "../../prove/quotas.ts";
import { shortRun } from "./short.ts";

const SEEDS = { redis: 2, restore: 3 };
/** None of them is a rush. */
const UNITS = 1;

describe.concurrent("quotas", () => {
  it.runIf(hasRedis())("are neither overspent nor lost where Redis loses everything", async () => {
    const { figures } = await shortRun(quotasCampaign(UNITS), "sqlite", 1, SEEDS.redis);
    expect(figures["Redis losses"]).toBe(1);
    expect(figures.grants).toBeGreaterThan(10);
  });

  it("are as they were at the backup after a restore, which names those that moved", async () => {
    const { figures } = await shortRun(quotasCampaign(UNITS), "sqlite", 1, SEEDS.restore);
    expect([figures.restores, figures["balances moved"]]).toEqual([1, 2]);
  });
});
