// The short version of `npm run prove -- quotas`: a kill on each database, and a stop on SQLite.
import { describe, expect, it } from "vitest";
import { backends } from "../../harness/databases/backends.ts";
import { quotasCampaign } from "../../prove/quotas.ts";
import { shortRun } from "./short.ts";

describe.concurrent("quotas under kill -9", () => {
  for (const back of backends) {
    it(`are never overspent on ${back}, lose no grant, and at most two blocks`, async () => {
      const { figures } = await shortRun(quotasCampaign, back, back === "sqlite" ? 2 : 1, 2);
      expect(figures.kills).toBe(1);
      expect(figures.grants).toBeGreaterThan(10);
      expect(figures.admitted).toBeGreaterThan(100);
    });
  }
});
