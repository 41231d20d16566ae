// bin/keyrack in a checkout that it cannot run.
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { tempDir } from "../../harness/processes/cli.ts";
import { root } from "../../harness/repository.ts";

function startOn(system: string): { status: number | null; stderr: string } {
  using temp = tempDir();
  mkdirSync(join(temp.dir, "bin"));
  copyFileSync(join(root, "bin/keyrack"), join(temp.dir, "bin/keyrack"));
  writeFileSync(join(temp.dir, "uname"), `#!/bin/sh\necho ${system}\n`, { mode: 0o755 });
  const env = { ...process.env, PATH: `${temp.dir}:${process.env["PATH"]}` };
  const { status, stderr } = spawnSync("sh", [join(temp.dir, "bin/keyrack"), "version"], { env, encoding: "utf8" });
  return { status, stderr };
}

it("asks for npm ci on Linux", () => {
  const { status, stderr } = startOn("Linux");
  expect(status).toBe(2);
  expect(stderr).toMatch(/^keyrack: dependencies are not installed\. Run 'npm ci' in /);
});

it("names the alternatives on another system, where npm ci would not help", () => {
  const { status, stderr } = startOn("Darwin");
  expect(status).toBe(2);
  expect(stderr).toMatch(/^keyrack: a checkout runs on Linux only\. Elsewhere, use the container image/);
  expect(stderr).not.toContain("npm ci");
});
