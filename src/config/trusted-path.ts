// Whether a path that was found, not named, may be used. A stranger can leave a keyrack.toml where an operator works,
// and settings run commands: so only what the operator or root alone can change is used unasked.
import { existsSync, lstatSync, realpathSync, statSync, type Stats } from "node:fs";
import { dirname } from "node:path";
import { BadSetting } from "./settings.ts";

const WRITABLE_BY_OTHERS = 0o022;
const STICKY = 0o1000;

/** Why a file must not be used unasked; null if it may be. A link is judged with its target. */
export function fileDistrust(path: string): string | null {
  for (const each of withTarget(path)) {
    const folder = dirname(each);
    const reason =
      ownerDistrust(each, lstatSync(each)) ??
      writersDistrust(each, lstatSync(each)) ??
      ownerDistrust(folder, statSync(folder)) ??
      writersDistrust(folder, statSync(folder));
    if (reason) return reason;
  }
  return null;
}

/**
 * A data dir that was not named, such as ./keyrack-data where anyone can create one. Its owner alone decides about its
 * mode.
 */
export function requireTrustedDataDir(dir: string): void {
  for (const each of existsSync(dir) ? withTarget(dir) : []) {
    const reason = ownerDistrust(each, lstatSync(each));
    if (reason) throw new BadSetting(`${dir} is not used: ${reason}. Name it with --data-dir ${dir} if you trust it.`);
  }
}

function withTarget(path: string): string[] {
  const target = realpathSync(path);
  return lstatSync(path).isSymbolicLink() ? [path, target] : [path];
}

/** Without user ids (Windows) there is nothing to compare. */
function ownerDistrust(path: string, { uid }: Stats): string | null {
  const own = process.geteuid?.();
  return own === undefined || uid === 0 || uid === own ? null : `${path} belongs to another user (uid ${uid})`;
}

/** A link's mode means nothing. In a sticky folder only a file's owner can replace it. */
function writersDistrust(path: string, stats: Stats): string | null {
  if (stats.isSymbolicLink() || (stats.isDirectory() && stats.mode & STICKY)) return null;
  if (process.geteuid === undefined || (stats.mode & WRITABLE_BY_OTHERS) === 0) return null;
  return `${path} is writable by its group or by others`;
}
