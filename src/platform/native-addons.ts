// Native addons of the single binary: unpacked from the executable to a cache folder, verified, then loaded. In a
// checkout packages load their own addons. Caution: in a folder that other users can write to, they could replace the
// file between the check and the load, so such folders are rejected.
import { createHash } from "node:crypto";
import { chmodSync, lstatSync, readFileSync, realpathSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import * as sea from "node:sea";
import { workerData } from "node:worker_threads";
import { ExitError } from "../kernel/exit-error.ts";
import { createDir, writeFileAtomically } from "./fsync.ts";

export type NativeName = "better-sqlite3" | "argon2";

const OPEN_TO_OTHERS = 0o022;
const STICKY = 0o1000;
const load = createRequire(sea.isSea() ? process.execPath : import.meta.url);
const loaded = new Map<NativeName, { addon: unknown; path: string }>();
let preferred: string[] = [];

/** Folders to try before the user's cache and the temporary folder. */
export function preferNativeFolders(folders: readonly string[]): void {
  preferred = folders.filter((folder) => folder !== "").map((folder) => resolve(folder));
}

/** The addon's exports, or undefined in a checkout, where its package loads it. */
export function nativeAddon(name: NativeName): unknown {
  if (!sea.isSea()) return undefined;
  const path = (workerData as { native?: Partial<Record<NativeName, string>> } | null)?.native?.[name];
  return path ? load(path) : unpacked(name).addon;
}

/** The addon's file, to pass to a worker thread. */
export function nativePath(name: NativeName): string | undefined {
  return sea.isSea() ? unpacked(name).path : undefined;
}

function unpacked(name: NativeName): { addon: unknown; path: string } {
  let found = loaded.get(name);
  if (!found) {
    found = unpack(name);
    loaded.set(name, found);
  }
  return found;
}

function candidates(): string[] {
  const { KEYRACK_CACHE_DIR: named, XDG_CACHE_HOME: xdg, HOME: home } = process.env;
  const user = xdg ? join(xdg, "keyrack") : home ? join(home, ".cache", "keyrack") : undefined;
  const all = [named, ...preferred, user, join(tmpdir(), `keyrack-${process.getuid?.() ?? 0}`)];
  return [...new Set(all.filter((folder) => folder !== undefined && folder !== ""))] as string[];
}

function unpack(name: NativeName): { addon: unknown; path: string } {
  const bytes = Buffer.from(sea.getRawAsset(`native/${name}.node`));
  const checksum = createHash("sha256").update(bytes).digest("hex");
  const refusals: string[] = [];
  for (const folder of candidates()) {
    try {
      const path = writeAddon(folder, `${name}-${checksum.slice(0, 16)}.node`, bytes, checksum);
      return { addon: load(path), path };
    } catch (error) {
      refusals.push(`${folder} (${reasonOf(error as NodeJS.ErrnoException)})`);
    }
  }
  throw new ExitError(
    `No folder to unpack native addons into: ${refusals.join(", ")}. Set KEYRACK_CACHE_DIR to a folder that is writable and not mounted noexec.`,
    2,
  );
}

/** Why an addon cannot be used from a folder, for the operator. */
export function reasonOf({ code, message }: NodeJS.ErrnoException): string {
  const version = /version `(\w+_[\d.]+)' not found/.exec(message)?.[1];
  if (version) return `this system has no ${version}: its C library is too old`;
  if (/Operation not permitted|failed to map segment/i.test(message)) return "mounted noexec";
  if (code === "EROFS") return "read-only";
  if (code === "EACCES" || code === "EPERM") return "no permission";
  return code === "ERR_DLOPEN_FAILED" ? "the addon does not load from there" : (code ?? message);
}

/** Writes the addon under its checksum's name, atomically: other processes may be starting at the same time. */
function writeAddon(folder: string, file: string, bytes: Buffer, checksum: string): string {
  createDir(folder);
  const real = realpathSync(folder);
  assertSafe(real);
  const dir = join(real, "native");
  createDir(dir);
  assertOwned(dir);
  const path = join(dir, file);
  if (isIntact(path, checksum)) return path;
  writeFileAtomically(path, bytes, 0o500);
  return path;
}

/** Users who can rename entries in a folder can replace files in it. */
function assertSafe(folder: string): void {
  const { uid, mode } = statSync(folder);
  if (uid !== 0 && uid !== process.getuid?.()) throw new Error("it belongs to another user");
  if ((mode & OPEN_TO_OTHERS) !== 0 && (mode & STICKY) === 0) throw new Error("other users can write to it");
}

function assertOwned(dir: string): void {
  const { uid, mode } = lstatSync(dir);
  if (uid !== process.getuid?.()) throw new Error("it belongs to another user");
  if ((mode & OPEN_TO_OTHERS) !== 0) chmodSync(dir, 0o700);
  if (!lstatSync(dir).isDirectory()) throw new Error("it is not a folder");
}

function isIntact(path: string, checksum: string): boolean {
  try {
    const { uid, mode } = lstatSync(path);
    if (!lstatSync(path).isFile() || uid !== process.getuid?.() || (mode & OPEN_TO_OTHERS) !== 0) return false;
    return createHash("sha256").update(readFileSync(path)).digest("hex") === checksum;
  } catch {
    return false;
  }
}
