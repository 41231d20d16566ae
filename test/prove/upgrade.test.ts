// The short version of `npm run prove -- upgrade`: one rolling upgrade from this checkout to a copy with another
// migration.
import { describe, expect, it } from "vitest";
import { upgradeCampaign } from "../../prove/upgrade.ts";
import { backends } from "../../harness/databases/backends.ts";
import { shortRun } from "./short.ts";

describe.skipIf(!backends.includes("postgres"))("a rolling upgrade under load", () => {
  it("loses nothing, fails no request of a process that stays, and survives a killed migration", {
    timeout: 300_000,
  }, async () => {
    const short = upgradeCampaign({ clients: 2, paceMs: 50, receipts: 1 });
    const { figures } = await shortRun(short, "postgres", 1);
    expect(figures).toMatchObject({ lost: 0, "killed migrations": 1 });
    expect(figures.acknowledged).toBeGreaterThan(50);
    expect(figures.receipts).toBeGreaterThanOrEqual(3);
  });
});
