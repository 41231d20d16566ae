// Debian packages that the image is made of: fetched from apt's own mirrors, accepted by their SHA-256, cached by it.
import { execFile } from "node:child_process";
import { createHash, randomUUID } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Architecture } from "./architectures.ts";
import { readTar, type Entry } from "./tar.ts";

const run = promisify(execFile);
const APT_HELPER = "/usr/lib/apt/apt-helper";

export type LockedPackage = {
  package: string;
  version: string;
  architecture: Architecture | "all";
  sha256: string;
  /** Below a mirror's address: pool/… */
  path: string;
};
/** `debian`: the release, such as "12". */
export type Lock = { debian: string; packages: LockedPackage[] };

export const lockFile = new URL("../oci.lock.json", import.meta.url);

export const readLock = (): Lock => JSON.parse(readFileSync(lockFile, "utf8")) as Lock;

export type DebianPackage = { name: string; control: string; entries: Entry[] };

export async function openPackage(locked: LockedPackage): Promise<DebianPackage> {
  const file = await fetchPackage(locked);
  const [control, archive] = await Promise.all([
    run("dpkg-deb", ["--field", file]),
    run("dpkg-deb", ["--fsys-tarfile", file], { encoding: "buffer", maxBuffer: 2 ** 30 }),
  ]);
  return { name: locked.package, control: control.stdout, entries: readTar(archive.stdout) };
}

/** The path of the package in the cache. */
export async function fetchPackage(locked: LockedPackage): Promise<string> {
  const folder = join(process.env.XDG_CACHE_HOME || join(homedir(), ".cache"), "keyrack-packages");
  const file = join(folder, `${locked.sha256}.deb`);
  if (sha256Of(file) === locked.sha256) return file;
  mkdirSync(folder, { recursive: true });
  console.error(`fetching ${locked.package} ${locked.version} (${locked.architecture}) …`);
  // Of its own: both platforms may be fetching the same package.
  const partial = `${file}.${randomUUID()}`;
  try {
    for (const mirror of await mirrors()) {
      // Fails on a mirror that does not have it, and on other bytes than those named.
      await run(APT_HELPER, ["download-file", mirror + locked.path, partial, `SHA256:${locked.sha256}`]).catch(
        () => {},
      );
      if (sha256Of(partial) !== locked.sha256) continue;
      renameSync(partial, file);
      return file;
    }
  } finally {
    for (const left of [partial, `${partial}.FAILED`]) rmSync(left, { force: true }); // apt keeps what it refuses
  }
  throw new Error(
    `${locked.package} ${locked.version} (${locked.architecture}) is on none of apt's mirrors. If Debian has replaced it: add snapshot.debian.org to apt's sources, or for a new release npm run oci:lock`,
  );
}

let found: Promise<string[]> | undefined;

/** Addresses of the archives in apt's configuration, each with a slash at its end. */
function mirrors(): Promise<string[]> {
  found ??= run("apt-get", ["indextargets", "--format", "$(REPO_URI)"]).then(
    ({ stdout }) => [...new Set(stdout.trim().split("\n"))].map((uri) => uri.replace(/\/*$/, "/")),
    () => [], // no apt on this machine
  );
  return found;
}

function sha256Of(file: string): string | null {
  try {
    return createHash("sha256").update(readFileSync(file)).digest("hex");
  } catch {
    return null; // not there
  }
}
