// The folder of a release appears complete or not at all: it is written beside and renamed. What npm run release did
// not make is never removed.
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { ExitError } from "../../src/cli/ui/output.ts";
import { withTemporaryFolder } from "../temporary-folder.ts";
import { MANIFEST, SIGNATURE, SUMS, type ReleaseManifest } from "./manifest.ts";

/** Throws if the folder holds anything but an earlier release. */
function assertReplaceable(folder: string): void {
  if (!existsSync(folder)) return;
  if (!statSync(folder).isDirectory()) throw new ExitError(`${folder} is not a folder`, 2);
  const foreign = readdirSync(folder).find((name) => !ownFiles(folder).has(name));
  if (foreign !== undefined)
    throw new ExitError(
      `${folder} contains ${foreign}, which is not of a release: remove it, or choose another --out`,
      2,
    );
}

/** The names in an earlier release, by its own list. */
function ownFiles(folder: string): Set<string> {
  try {
    const { files } = JSON.parse(readFileSync(join(folder, MANIFEST), "utf8")) as ReleaseManifest;
    return new Set([...files.map(({ name }) => name), MANIFEST, SUMS, SIGNATURE]);
  } catch {
    return new Set();
  }
}

/** Fills a folder; `work` takes what is removed afterwards. */
export type Fill = (folder: string, work: string) => Promise<void>;

/** Calls `fill` with empty folders beside `out`, then puts the first in the place of `out`. */
export async function replaceFolder(out: string, fill: Fill): Promise<void> {
  assertReplaceable(out);
  mkdirSync(dirname(out), { recursive: true });
  await withTemporaryFolder(join(dirname(out), `.${basename(out)}-`), async (beside) => {
    const [folder, work, replaced] = [join(beside, "new"), join(beside, "work"), join(beside, "old")];
    mkdirSync(folder);
    mkdirSync(work);
    await fill(folder, work);
    assertReplaceable(out); // again, because filling takes a while
    if (existsSync(out)) renameSync(out, replaced);
    try {
      renameSync(folder, out);
    } catch (error) {
      if (existsSync(replaced)) renameSync(replaced, out);
      throw error;
    }
  });
}
