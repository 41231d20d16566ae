// --check: makes the release twice, from two clones of the commit, and compares every byte. Path, time zone and umask
// differ between the two, because each of them can end up in an archive.
import { execFile } from "node:child_process";
import { cpSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { ExitError } from "../../src/cli/ui/output.ts";
import { root } from "../sea/targets.ts";
import { withTemporaryFolder } from "../temporary-folder.ts";
import { assertNothingUnreleased } from "../version/changelog.ts";
import { firstDifference } from "./compare.ts";
import type { Options } from "./options.ts";
import { finishRelease, readChangelog } from "./release.ts";
import { assertTools } from "./required-tools.ts";
import { checkSignKey } from "./sign.ts";
import { commitOf } from "./source.ts";

const run = promisify(execFile);

type Surroundings = { folder: string; umask: string; timeZone: string };

const SURROUNDINGS: Surroundings[] = [
  { folder: "a", umask: "022", timeZone: "UTC" },
  { folder: "another/folder", umask: "077", timeZone: "Asia/Kathmandu" },
];

export async function makeCheckedRelease(options: Options): Promise<void> {
  assertTools(options);
  if (!options.snapshot) assertNothingUnreleased(readChangelog());
  const commit = commitOf(root);
  if (options.signKey) checkSignKey(options.signKey, options.keysFile);
  if (commit === null) throw new ExitError("--check builds a commit: commit your changes first", 2);
  await withTemporaryFolder(join(tmpdir(), "keyrack-check-"), async (work) => {
    const made: string[] = [];
    for (const each of SURROUNDINGS) made.push(await buildClone(options, commit, work, each));
    const [first = "", second = ""] = made;
    const difference = firstDifference(first, second);
    if (difference !== null) throw new ExitError(`not reproducible: ${difference}`, 4);
    console.log(`two builds of ${commit} are equal`);
    await finishRelease(options, async (folder) => cpSync(first, folder, { recursive: true }));
  });
}

/** Returns the folder of the release. The clone is removed at once, because its packages take much space. */
async function buildClone(
  { targets, kinds, keysFile, snapshot }: Options,
  commit: string,
  work: string,
  { folder, umask, timeZone }: Surroundings,
): Promise<string> {
  const clone = join(work, folder, "keyrack");
  const out = join(work, folder, "release");
  const within = async (cwd: string, ...command: string[]): Promise<void> => {
    const env = { ...process.env, TZ: timeZone };
    await run("sh", ["-c", `umask ${umask}; exec "$@"`, "sh", ...command], { cwd, env });
  };
  console.error(`building ${commit} in ${clone} …`);
  await within(root, "git", "clone", "-q", "--no-hardlinks", root, clone);
  await within(clone, "git", "checkout", "-q", "--detach", commit);
  await within(clone, "npm", "ci", "--prefer-offline", "--no-audit", "--no-fund");
  const ownKeys = keysFile === join(root, "release-keys") ? [] : ["--own-keys", keysFile];
  const named = snapshot ? ["--snapshot"] : [];
  const chosen = [...targets.flatMap((name) => ["--target", name]), ...kinds.flatMap((name) => ["--only", name])];
  await within(clone, "npm", "run", "-s", "release", "--", "--out", out, ...chosen, ...ownKeys, ...named);
  rmSync(clone, { recursive: true, force: true });
  return out;
}
