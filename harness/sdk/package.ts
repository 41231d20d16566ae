// The library as a vendor installs it: packed as for a release, and installed offline into an empty folder.

import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const RELEASE = fileURLToPath(new URL("../../tools/release/main.ts", import.meta.url));

/** Returns the path of the tarball. Its contents are unpacked into `built` beside it. */
export function packSdk(folder: string): string {
  const release = join(folder, "release");
  const args = [RELEASE, "--only", "npm", "--snapshot", "--out", release];
  execFileSync(process.execPath, args, { stdio: ["ignore", "ignore", "inherit"] });
  const tarball = join(release, readdirSync(release).find((name) => name.endsWith(".tgz")) ?? "");
  const built = join(folder, "built");
  mkdirSync(built);
  execFileSync("tar", ["-xzf", tarball, "-C", built, "--strip-components=1"]);
  return tarball;
}

export function installSdk(tarball: string, app: string): void {
  mkdirSync(app, { recursive: true });
  writeFileSync(join(app, "package.json"), '{ "private": true }');
  execFileSync("npm", ["install", "--offline", "--no-audit", "--no-fund", "--silent", tarball], { cwd: app });
}
