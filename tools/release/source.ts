// What is built: the commit, what it is called, and the time that stands for it in every file.
import { execFileSync } from "node:child_process";
import { realpathSync } from "node:fs";
import { ExitError } from "../../src/cli/ui/output.ts";
import { VERSION } from "../../src/platform/version.ts";

export type Identity = {
  commit: string | null;
  /** The released version, or X.Y.Z-dev.<commit>: two builds of one version are made of the same files. */
  version: string;
  release: boolean;
};
export type Source = Identity & { epoch: number };

const COMMIT_DIGITS = 12;

/** What a build calls itself that is no release. It has the number of the last release, but not its code. */
export function snapshotOf(commit: string | null): Identity {
  return { commit, version: `${VERSION}-dev.${commit?.slice(0, COMMIT_DIGITS) ?? "modified"}`, release: false };
}

export const releaseOf = (commit: string | null): Identity => ({ commit, version: VERSION, release: true });

/** git's output, or null if it fails or the folder is not a repository of its own. */
function git(root: string, ...args: string[]): string | null {
  const env = { ...process.env, LC_ALL: "C" };
  const run = (words: string[]): string =>
    execFileSync("git", words, { cwd: root, env, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }).trim();
  try {
    // An unpacked archive may be inside another project's repository.
    if (realpathSync(run(["rev-parse", "--show-toplevel"])) !== realpathSync(root)) return null;
    return run(args);
  } catch (error) {
    const { stderr = "" } = error as { stderr?: string };
    // Outside a repository nothing is wrong. Anything else, such as a checkout of another user, can be fixed.
    if (!stderr.includes("not a git repository")) process.stderr.write(stderr);
    return null;
  }
}

/** The commit that the files equal; null outside a repository and with changes that are not committed. */
export function commitOf(root: string): string | null {
  return git(root, "status", "--porcelain") === "" ? git(root, "rev-parse", "HEAD") : null;
}

/** SOURCE_DATE_EPOCH, else the commit's time: seconds since 1970. */
export function epochOf(root: string, given = process.env.SOURCE_DATE_EPOCH): number {
  const text = given ?? git(root, "log", "-1", "--format=%ct");
  if (text === null) throw new ExitError("this is not a git repository: set SOURCE_DATE_EPOCH to the source's time", 2);
  if (!/^\d{1,11}$/.test(text)) throw new ExitError("SOURCE_DATE_EPOCH must be a number of seconds since 1970", 2);
  return Number(text);
}
