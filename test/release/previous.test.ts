// The nightly workflow's step that fetches the last release: it fails unless there is none yet, or a good one was
// fetched.
import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { tempDir } from "../../harness/processes/cli.ts";
import { writeSmallRelease } from "../../harness/release/small-release.ts";
import { readText, root } from "../../harness/repository.ts";

type Workflow = { jobs: { nightly: { steps: { name?: string; run?: string }[] } } };
const { jobs } = parse(readText(".github/workflows/nightly.yml")) as Workflow;
const step = jobs.nightly.steps.find(({ name }) => name?.startsWith("Fetch the last release"))?.run ?? "";

/** Runs the step with a `gh` whose commands are these; returns its exit code and whether there is a binary. */
function fetchPrevious({ api, download }: { api: string; download: string }) {
  using temp = tempDir();
  const at = (...parts: string[]): string => join(temp.dir, ...parts);
  for (const folder of ["bin", "temp"]) mkdirSync(at(folder));
  copyFileSync(join(root, "install.sh"), at("install.sh"));
  writeFileSync(at("release-keys"), "# none\n");
  writeSmallRelease(at("published"), { version: "1.2.3" });
  const gh = `#!/bin/sh\ncase $1 in api) ${api} ;; release) ${download} ;; esac\n`;
  writeFileSync(at("bin/gh"), gh, { mode: 0o755 });
  const env = {
    PATH: `${at("bin")}:${process.env.PATH}`,
    HOME: temp.dir,
    RUNNER_TEMP: at("temp"),
    PUBLISHED: at("published"),
  };
  const ran = spawnSync("sh", ["-e", "-c", step], { cwd: temp.dir, env, encoding: "utf8" });
  return { failed: ran.status !== 0, binary: existsSync(at("temp/previous/bin/keyrack")) };
}

const DOWNLOAD = 'cp -r "$PUBLISHED" "$5"';

it.each([
  ["uses the newest release", "echo v1.2.3", DOWNLOAD, { failed: false, binary: true }],
  ["passes while there is none", "true", "exit 1", { failed: false, binary: false }],
  ["fails if the list cannot be read", "exit 1", DOWNLOAD, { failed: true, binary: false }],
  ["fails if it cannot be fetched", "echo v1.2.3", "exit 1", { failed: true, binary: false }],
  [
    "fails if it was changed",
    "echo v1.2.3",
    `${DOWNLOAD}; echo >> "$5/keyrack-1.2.3-linux-x64.tar.gz"; echo >> "$5/keyrack-1.2.3-linux-arm64.tar.gz"`,
    { failed: true, binary: false },
  ],
])("%s", (_what, api, download, expected) => {
  expect(fetchPrevious({ api, download })).toEqual(expected);
});
