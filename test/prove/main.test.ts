// `npm run prove` as a process.
import { join } from "node:path";
import { expect, it } from "vitest";
import { root } from "../../harness/repository.ts";
import { runScript } from "../../harness/scripts.ts";
import { campaigns } from "../../prove/campaigns.ts";

it("npm run prove loads every campaign outside the test runner, and lists them when none is named", () => {
  const { code, err } = runScript(join(root, "prove/main.ts"), []);
  expect(code, err).toBe(2);
  for (const { name } of campaigns) expect(err).toContain(`\n  ${name} `);
});
