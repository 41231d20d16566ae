// The short version of `npm run prove -- quotas`: a kill, and the rush for one quota with a stop and with a kill.
import { describe, expect, it } from "vitest";
import { backends } from "../../harness/databases/backends.ts";
import { quotasCampaign } from "../../prove/quotas.ts";
import { shortRun } from "./short.ts";

const SEEDS = { kill: 1, rush: 4 };
const UNITS = 400;

describe.concurrent("quotas", () => {
  it("are never overspent under kill -9, lose no grant, and at most two blocks", async () => {
    const { figures } = await shortRun(quotasCampaign(UNITS), backends.at(-1) ?? "sqlite", 1, SEEDS.kill);
    expect(figures.kills).toBe(1);
    expect(figures.grants).toBeGreaterThan(10);
    expect(figures.admitted).toBeGreaterThan(100);
  });

  it("of 400 units admit exactly 400 to 40 callers and 3 nodes, and never more beside a kill", async () => {
    const { figures } = await shortRun(quotasCampaign(UNITS), "sqlite", 2, SEEDS.rush);
    expect([figures.stops, figures.kills]).toEqual([1, 1]);
    expect(figures.admitted).toBeGreaterThan(UNITS);
    expect(figures.admitted).toBeLessThanOrEqual(2 * UNITS);
  });
});
