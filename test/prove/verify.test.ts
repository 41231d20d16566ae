// Chain verification in this thread: the same code as in the worker, visible to a debugger, a coverage tool and the
// mutation tester.
import { expect, it } from "vitest";
import { tamper } from "../../prove/tamper.ts";
import { shortRun } from "./short.ts";

it("detects every change to the audit log, and none in an intact one", async () => {
  const { figures } = await shortRun(tamper, "sqlite", 60);
  expect(figures.found).toBeGreaterThan(40);
  expect(figures["found only by the checkpoint"]).toBeGreaterThan(4);
});
