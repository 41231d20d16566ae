// npm run prove -- crash [--rounds N] [--seed S] [--backend sqlite|postgres]
// npm run prove -- fleet [--nodes N]
// Runs a campaign against a promise and prints a report; exit 4 when the promise broke.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { crash } from "./crash.ts";
import { fleet } from "./fleet.ts";
import { withScratchDatabase } from "./scratch.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: "string", default: "50" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    backend: { type: "string", default: "sqlite" },
    nodes: { type: "string", default: "20" },
  },
});

async function runCrash(): Promise<boolean> {
  const dir = mkdtempSync(join(tmpdir(), "keyrack-prove-"));
  try {
    return await withScratchDatabase(values.backend, async (database) => {
      const args = ["--data-dir", dir, ...(database ? ["--database-url", database] : [])];
      const say = (line: string): void => console.error(line);
      const report = await crash({ rounds: Number(values.rounds), seed: Number(values.seed), args, say });
      console.log(JSON.stringify({ backend: values.backend, ...report }, null, 2));
      return report.lost.length === 0 && report.problems.length === 0;
    });
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

async function runFleet(): Promise<boolean> {
  const report = await fleet(Number(values.nodes));
  console.log(JSON.stringify(report, null, 2));
  return report.problems.length === 0;
}

const campaigns: Record<string, () => Promise<boolean>> = { crash: runCrash, fleet: runFleet };
const campaign = campaigns[positionals[0] ?? ""];
if (!campaign) {
  console.error(
    `usage: npm run prove -- ${Object.keys(campaigns).join("|")} [--rounds N] [--seed S] [--backend sqlite|postgres] [--nodes N]`,
  );
  process.exitCode = 2;
} else if (!(await campaign())) process.exitCode = 4;
