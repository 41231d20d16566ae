// The short version of a campaign: the same code as `npm run prove`, a few rounds of it.
import { expect } from "vitest";
import { runCampaign, type Backend, type Campaign, type Report } from "../../prove/campaign.ts";
import { withScratch } from "../../harness/databases/scratch.ts";
import { postgresUrl } from "../../harness/databases/backends.ts";

export async function shortRun(campaign: Campaign, backend: Backend, rounds: number, seed = 1): Promise<Report> {
  const report = await withScratch(
    backend,
    (scratch) => runCampaign(campaign, { rounds, seed, backend, scratch }),
    postgresUrl ?? undefined,
  );
  expect(report.failures).toEqual([]);
  expect(report.skipped ?? report.rounds).toBe(report.skipped ?? rounds);
  return report;
}
