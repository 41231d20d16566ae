// Short versions of the campaigns that intercept the file operations of a process.
import { expect, it } from "vitest";
import { skipOrFail } from "../../harness/processes/tools.ts";
import { iofault } from "../../prove/iofault.ts";
import { powercut } from "../../prove/powercut.ts";
import type { Report } from "../../prove/campaign.ts";
import { shortRun } from "./short.ts";

function wasRun({ skipped }: Report): boolean {
  if (skipped !== undefined) skipOrFail("gcc", "power cuts and disk faults", `is missing: ${skipped}`);
  return skipped === undefined;
}

it("a power cut loses nothing acknowledged, and the control run without syncs does", async () => {
  const report = await shortRun(powercut, "sqlite", 1);
  if (!wasRun(report)) return;
  expect(report.figures).toMatchObject({ lost: 0 });
  // That unsynced writes are forgotten is shown by the control; one cut may by chance fall on a quiet disk.
  expect(report.figures["control lost after cuts"]).toBeTypeOf("number");
});

it("a failing disk fails the request, never a promise", async () => {
  const report = await shortRun(iofault, "sqlite", 2);
  if (!wasRun(report)) return;
  expect(report.figures.restarts).toBeGreaterThan(0);
});
