// The library as a vendor installs it: built, packed, and installed offline into an empty folder.

import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const BUILD = fileURLToPath(new URL("../../tools/build-sdk.ts", import.meta.url));

/** Returns the path of the tarball. */
export function packSdk(folder: string): string {
  const built = join(folder, "built");
  execFileSync(process.execPath, [BUILD, built], { stdio: ["ignore", "ignore", "inherit"] });
  execFileSync("npm", ["pack", "--silent", "--pack-destination", folder], { cwd: built });
  return join(folder, readdirSync(folder).find((name) => name.endsWith(".tgz")) ?? "");
}

export function installSdk(tarball: string, app: string): void {
  mkdirSync(app, { recursive: true });
  writeFileSync(join(app, "package.json"), '{ "private": true }');
  execFileSync("npm", ["install", "--offline", "--no-audit", "--no-fund", "--silent", tarball], { cwd: app });
}
