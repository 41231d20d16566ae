// The report: one row of the page for each campaign and backend, and a command that repeats each failure.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { rounds, runCampaign, Tally, type Campaign, type Report } from "../../prove/campaign.ts";
import { campaigns } from "../../prove/campaigns.ts";
import { tableOf, withReport } from "../../prove/report.ts";

const page = readFileSync(fileURLToPath(new URL("../../docs/reliability.md", import.meta.url)), "utf8");
const report: Report = {
  campaign: "example",
  promise: "P1",
  backend: "sqlite",
  seed: 40,
  rounds: 3,
  date: "2026-11-15",
  seconds: 1,
  figures: { kills: 12_345 },
  failures: [],
};

describe("docs/reliability.md", () => {
  it("describes every campaign", () => {
    for (const { name } of campaigns) expect(page.includes(`\n| ${name} | `), name).toBe(true);
  });

  it("names the campaigns and guarantees without a published run", () => {
    const [, results = ""] = page.split("## Latest results");
    const [, sentence = ""] = /^Only the campaigns in this table (.*?)\. Each/m.exec(results) ?? [];
    const without = campaigns.filter(({ name }) => !results.includes(`\n| ${name} | `)).map(({ name }) => name);
    const [, listed = ""] = /the campaigns (.*)$/.exec(sentence) ?? [];
    expect(listed.split(/, | and /).toSorted()).toEqual(without.toSorted());
    const published = new Set(results.split("<!-- figures")[1]?.match(/\bP\d+\b/g));
    const guarantees = [...page.matchAll(/^\| (P\d+) \|/gm)].map(([, name = ""]) => name);
    expect(sentence.match(/\bP\d+\b/g)).toEqual(guarantees.filter((name) => !published.has(name)));
  });

  it("has a row for each report, replaced by a newer one", () => {
    const once = withReport(page, report);
    expect(once.split("\n")).toContain("| example | sqlite | P1 | held | 3 | 40 | 2026-11-15 | kills: 12,345 |");
    const twice = withReport(once, { ...report, rounds: 9, failures: [{ seed: 41, what: "lost" }] });
    expect(twice.split("\n").filter((line) => line.startsWith("| example |"))).toEqual([
      "| example | sqlite | P1 | **1 failures** | 9 | 40 | 2026-11-15 | kills: 12,345 |",
    ]);
    expect(withReport(once, { ...report, backend: "postgres" }).match(/^\| example \|/gm)).toHaveLength(2);
  });
});

describe("a failure", () => {
  it("names the seed of its round, and the command that repeats it", async () => {
    const campaign: Campaign = {
      ...(campaigns[0] as Campaign),
      name: "example",
      run: async (options, tally) => {
        for (const seed of rounds(options, tally)) if (seed === 42) tally.failed(seed, "broke");
      },
    };
    const scratch = { dir: "", target: { kind: "sqlite", file: "" }, args: [] } as const;
    const found = await runCampaign(campaign, {
      rounds: 5,
      seed: 40,
      backend: "sqlite",
      scratch: { ...scratch, args: [] },
    });
    expect(found).toMatchObject({ rounds: 5, failures: [{ seed: 42, what: "broke" }] });
    expect(tableOf(found)).toContain("npm run prove -- example --backend sqlite --rounds 1 --seed 42");
  });

  it("of the campaign itself counts as one, and too many end the run", async () => {
    const tally = new Tally(() => {});
    const seen = [];
    for (const seed of rounds({ rounds: 100, seed: 0 }, tally)) {
      seen.push(seed);
      tally.failed(seed, "again");
    }
    expect(seen).toHaveLength(20);
    const broken: Campaign = { ...(campaigns[0] as Campaign), run: () => Promise.reject(new Error("no server")) };
    const scratch = { dir: "", target: { kind: "sqlite" as const, file: "" }, args: [] };
    const { failures } = await runCampaign(broken, { rounds: 1, seed: 7, backend: "sqlite", scratch });
    expect(failures).toMatchObject([{ seed: 7, what: expect.stringContaining("no server") }]);
  });
});
