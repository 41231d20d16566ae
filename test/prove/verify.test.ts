// Chain verification called in this thread: the same code as the worker's, where a debugger, a coverage tool and the
// mutation tester can see it.
import { expect, it } from "vitest";
import { tamper } from "../../prove/tamper.ts";
import { shortRun } from "./short.ts";

it("finds every change to the audit log, and nothing in an untouched one", async () => {
  const { figures } = await shortRun(tamper, "sqlite", 99);
  expect(figures.found).toBeGreaterThan(70);
});
