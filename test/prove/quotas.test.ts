// The short version of `npm run prove -- quotas`: a kill, by default of the only process, at night of one of two;
// and the rush for one quota with a stop, at night also with a kill.
import { describe, expect, it } from "vitest";
import { quotasCampaign } from "../../prove/quotas.ts";
import { IS_NIGHT } from "../../harness/rounds.ts";
import { databasesOf, shortRun } from "./short.ts";

const SEEDS = { kill: 1, rush: 4 };
const UNITS = 400;
const RUSHES = IS_NIGHT ? 2 : 1;

describe.concurrent("quotas", () => {
  for (const backend of databasesOf("sqlite"))
    it(`are never overspent on ${backend} under kill -9, lose no grant, and at most two blocks`, async () => {
      const { figures } = await shortRun(quotasCampaign(UNITS), backend, 1, SEEDS.kill);
      expect(figures.kills).toBe(1);
      expect(figures.grants).toBeGreaterThan(10);
      expect(figures.admitted).toBeGreaterThan(100);
    });

  const besideKill = RUSHES > 1 ? ", and never more beside a kill" : "";
  it(`of 400 units admit exactly 400 to 40 callers and 3 nodes${besideKill}`, async () => {
    const { figures } = await shortRun(quotasCampaign(UNITS), "sqlite", RUSHES, SEEDS.rush);
    expect([figures.stops, figures.kills ?? 0]).toEqual([1, RUSHES - 1]);
    if (RUSHES === 1) expect(figures.admitted).toBe(UNITS);
    else expect(figures.admitted).toBeGreaterThan(UNITS); // the rush with the kill admits some too
    expect(figures.admitted).toBeLessThanOrEqual(RUSHES * UNITS);
  });
});
