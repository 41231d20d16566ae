// examples/ci as written: a vendor's test suite against an ephemeral instance.
import { join } from "node:path";
import { expect, it } from "vitest";
import { keyrack } from "../../harness/processes/cli.ts";

it("examples/ci passes under keyrack ephemeral --seed", async () => {
  const cwd = join(import.meta.dirname, "../../examples/ci");
  const command = ["node", "--test", "--test-reporter=tap", "keys.test.mjs"];
  const ran = await keyrack(["ephemeral", "--seed", "--", ...command], { cwd });
  expect(ran.code, ran.stdout + ran.stderr).toBe(0);
  expect(ran.stdout).toMatch(/# pass 2\b/);
});
