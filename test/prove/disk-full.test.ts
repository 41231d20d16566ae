// The short version of `npm run prove -- disk-full`: filled and freed once.
import { describe, expect, it } from "vitest";
import { skipOrFail } from "../../harness/processes/tools.ts";
import { diskFull } from "../../prove/disk-full.ts";

const ROUNDS = 1;

describe("a disk that fills up", () => {
  it("refuses writes with 503, continues to read, and resumes writing without a restart", async (test) => {
    const report = await diskFull({ rounds: ROUNDS, seed: 7 });
    if (report.skipped) {
      skipOrFail("mount", "a disk that fills up", `is missing: ${report.skipped}`);
      test.skip(report.skipped);
    }
    expect(report).toMatchObject({ rounds: ROUNDS, problems: [], answeredWhileFull: 8 * ROUNDS });
    expect(report.refused).toBeGreaterThan(0);
  });
});
