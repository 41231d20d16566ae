// The short version of `npm run prove -- processes`.
import { expect, it } from "vitest";
import { backends } from "../../harness/databases/backends.ts";
import { processesCampaign } from "../../prove/processes.ts";
import { shortRun } from "./short.ts";

it.runIf(backends.includes("postgres"))(
  "while notices are lost, connections half-open, a process paused and node writes stall, no poll misses a revocation",
  async () => {
    const { figures } = await shortRun(processesCampaign(1), "postgres", 4);
    expect(figures.revocations).toBeGreaterThan(3);
    expect(figures).toMatchObject({
      "rounds, notifications lost": 1,
      "rounds, half-open": 1,
      "rounds, paused": 1,
      "rounds, node writes stall": 1,
    });
  },
);
