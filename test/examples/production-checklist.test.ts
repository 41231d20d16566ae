// The settings of the production checklist in docs/operate.md are accepted, and `keyrack doctor` finds nothing exposed.
import { tmpdir } from "node:os";
import { expect, it } from "vitest";
import { readText } from "../../harness/repository.ts";
import { checkSettings } from "../../src/cli/commands/doctor/settings.ts";
import { requireConsistent } from "../../src/config/consistency.ts";
import { loadSettings } from "../../src/config/load.ts";

const [, block = ""] =
  /^## Production checklist\n[\s\S]*?^```sh\n([\s\S]*?)^```$/m.exec(readText("docs/operate.md")) ?? [];
const env = Object.fromEntries(
  [...block.matchAll(/^(KEYRACK_\w+)="?(.*?)"?$/gm)].map(([, name = "", value = ""]) => [name, value]),
);

it("the checklist's settings start a server that exposes nothing", async () => {
  expect(Object.keys(env).length).toBe(block.trimEnd().split("\n").length);
  const { settings, warnings } = loadSettings({ env, cwd: tmpdir() });
  expect(warnings).toEqual([]);
  expect(() => requireConsistent(settings)).not.toThrow();
  const findings = await checkSettings(settings, process.pid);
  expect(findings.map(({ what }) => what)).toContain("Network exposure is safe.");
});
