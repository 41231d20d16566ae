// The short version of a campaign: the same code as `npm run prove`, a few rounds of it.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect } from "vitest";
import { runCampaign, type Backend, type Campaign, type Report } from "../../prove/campaign.ts";
import { backends, readyDatabase } from "../../harness/databases/backends.ts";
import type { Scratch } from "../../harness/databases/scratch.ts";
import { IS_NIGHT } from "../../harness/rounds.ts";

/** By default one database, because each takes servers of its own; at night all. */
export function databasesOf(preferred: (typeof backends)[number]): typeof backends {
  return IS_NIGHT || !backends.includes(preferred) ? backends : [preferred];
}

/** A migrated database: to migrate an empty one can take as long as a round. */
async function readyScratch(backend: Backend): Promise<Scratch & AsyncDisposable> {
  const { target, dispose } = await readyDatabase(backend === "postgres" ? "postgres" : "sqlite");
  if (target.kind === "sqlite") {
    const dir = dirname(target.file);
    return { dir, target, args: ["--data-dir", dir], [Symbol.asyncDispose]: dispose };
  }
  const dir = mkdtempSync(join(tmpdir(), "keyrack-prove-"));
  return {
    dir,
    target,
    args: ["--data-dir", dir, "--database-url", target.url],
    async [Symbol.asyncDispose]() {
      await dispose();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

export async function shortRun(campaign: Campaign, backend: Backend, rounds: number, seed = 1): Promise<Report> {
  await using scratch = await readyScratch(backend);
  const report = await runCampaign(campaign, { rounds, seed, backend, scratch });
  expect(report.failures).toEqual([]);
  expect(report.skipped ?? report.rounds).toBe(report.skipped ?? rounds);
  return report;
}
