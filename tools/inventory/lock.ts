// package-lock.json as data.
import { readFileSync } from "node:fs";
import { join } from "node:path";

type Lock = { packages: Record<string, { version: string; integrity?: string }> };

/** The hash of a package's archive, as `sha512-<base64>`. `folder` is where it is installed, as `node_modules/name`. */
export function lockedIntegrity(root: string, folder: string): string {
  const lock = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as Lock;
  const integrity = lock.packages[folder]?.integrity;
  if (!integrity?.startsWith("sha512-")) throw new Error(`the lock file has no sha512 of ${folder}`);
  return integrity;
}

/** The same in hexadecimal. */
export function lockedSha512(root: string, folder: string): string {
  return Buffer.from(lockedIntegrity(root, folder).slice("sha512-".length), "base64").toString("hex");
}
