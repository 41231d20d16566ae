// npm run prove -- <campaign> [--rounds N] [--seed S] [--backend B] [--minutes M] [--from BINARY] [--write]
// Runs a campaign against a promise: JSON on stdout, a table on stderr, exit 4 when the promise broke.
// --write puts the figures into docs/reliability.md. --list prints every campaign with each of its backends.
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { runCampaign } from "./campaign.ts";
import { campaigns } from "./campaigns.ts";
import { publish, tableOf } from "./report.ts";
import { withScratch } from "../harness/databases/scratch.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: "string" },
    seed: { type: "string", default: String(Date.now() % 1_000_000) },
    backend: { type: "string" },
    minutes: { type: "string", default: "120" },
    from: { type: "string" },
    write: { type: "boolean", default: false },
    list: { type: "boolean", default: false },
  },
});

function usage(why: string): void {
  const lines = campaigns.map(
    ({ name, rounds, round, claim }) => `  ${name.padEnd(12)}${claim} (${rounds} × ${round})`,
  );
  const options = "[--rounds N] [--seed S] [--backend B] [--minutes M] [--from BINARY] [--write]";
  console.error(`${why}\nusage: npm run prove -- <campaign> ${options}\n${lines.join("\n")}`);
  process.exitCode = 2;
}

async function main(): Promise<void> {
  if (values.list) {
    for (const { name, backends } of campaigns) for (const backend of backends) console.log(`${name} ${backend}`);
    return;
  }
  const campaign = campaigns.find(({ name }) => name === positionals[0]);
  if (!campaign) return usage("Name a campaign.");
  const backend = campaign.backends.find((name) => name === (values.backend ?? campaign.backends[0]));
  if (!backend) return usage(`--backend of ${campaign.name} is one of ${campaign.backends.join(", ")}.`);
  const [rounds, seed, minutes] = [values.rounds ?? campaign.rounds, values.seed, values.minutes].map(Number);
  if (![rounds, seed, minutes].every(Number.isFinite)) return usage("--rounds, --seed and --minutes take a number.");
  const stop = new AbortController();
  process.once("SIGTERM", () => {
    console.error("ending after this round");
    stop.abort();
  });
  const run = {
    stop: stop.signal,
    rounds: rounds ?? 1,
    seed: seed ?? 1,
    minutes: minutes ?? 1,
    ...(values.from && { from: resolve(values.from) }),
    print: (line: string) => console.error(line),
  };
  const report = await withScratch(backend, (scratch) => runCampaign(campaign, { ...run, backend, scratch }));
  console.error(tableOf(report));
  console.log(JSON.stringify(report, null, 2));
  if (values.write) publish(report);
  if (report.failures.length > 0) process.exitCode = 4;
}

await main();
