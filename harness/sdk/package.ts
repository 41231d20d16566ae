// The library as a vendor installs it: packed as for a release, and installed offline into an empty folder; once per
// run, because to build, to pack and to install it takes seconds.

import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const RELEASE = fileURLToPath(new URL("../../tools/release/main.ts", import.meta.url));

export type PackedSdk = {
  tarball: string;
  /** Its contents. */
  built: string;
};

/** Copies the installed library into an app's folder. */
export function installSdk(app: string): PackedSdk {
  const shared = join(process.env.KEYRACK_TEST_RUN ?? "", "sdk");
  if (!existsSync(shared)) makeShared(shared);
  cpSync(join(shared, "app"), app, { recursive: true, verbatimSymlinks: true });
  const [tarball = ""] = readdirSync(shared).filter((name) => name.endsWith(".tgz"));
  return { tarball: join(shared, tarball), built: join(shared, "built") };
}

/** It gets its name last: another test process may make it too, and the first one counts. */
function makeShared(shared: string): void {
  const work = mkdtempSync(join(tmpdir(), "keyrack-sdk-"));
  try {
    pack(work);
    renameSync(work, shared);
  } catch (error) {
    if (!existsSync(shared)) throw error;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

function pack(work: string): void {
  const release = join(work, "release");
  const args = [RELEASE, "--only", "npm", "--snapshot", "--out", release];
  execFileSync(process.execPath, args, { stdio: ["ignore", "ignore", "inherit"] });
  const name = readdirSync(release).find((each) => each.endsWith(".tgz")) ?? "";
  const tarball = join(work, name);
  renameSync(join(release, name), tarball);
  for (const folder of ["built", "app"]) mkdirSync(join(work, folder));
  execFileSync("tar", ["-xzf", tarball, "-C", join(work, "built"), "--strip-components=1"]);
  const app = join(work, "app");
  writeFileSync(join(app, "package.json"), '{ "private": true }');
  execFileSync("npm", ["install", "--offline", "--no-audit", "--no-fund", "--silent", tarball], { cwd: app });
}
