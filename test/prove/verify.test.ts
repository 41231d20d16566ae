// Chain verification in this thread: the same code as in the worker, visible to a debugger, a coverage tool and the
// mutation tester. By default on one database; test/domain/audit/tampering.test.ts runs on both.
import { expect, it } from "vitest";
import { tamper } from "../../prove/tamper.ts";
import { databasesOf, shortRun } from "./short.ts";

it.each(databasesOf("sqlite"))(
  "detects every change to the audit log, and none in an intact one, on %s",
  async (backend) => {
    const { figures } = await shortRun(tamper, backend, 60);
    expect(figures.found).toBeGreaterThan(40);
    expect(figures["found only by the checkpoint"]).toBeGreaterThan(4);
  },
);
