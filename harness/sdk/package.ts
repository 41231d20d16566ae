// The library as a vendor installs it: packed as for a release, and installed offline into an empty folder; once per
// run, because to build, to pack and to install it takes seconds.

import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const RELEASE = fileURLToPath(new URL("../../tools/release/main.ts", import.meta.url));

/** SOURCE_DATE_EPOCH of the release that it is packed in. */
export const PACKED_EPOCH = 1_700_000_000;

export type PackedSdk = {
  /** The folder of that release. */
  release: string;
  tarball: string;
  /** Its contents. */
  built: string;
};

/** Copies the installed library into an app's folder. */
export function installSdk(app: string): PackedSdk {
  const shared = join(process.env.KEYRACK_TEST_RUN ?? "", "sdk");
  if (!existsSync(shared)) makeShared(shared);
  cpSync(join(shared, "app"), app, { recursive: true, verbatimSymlinks: true });
  const release = join(shared, "release");
  return { release, tarball: tarballIn(release), built: join(shared, "built") };
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

function tarballIn(release: string): string {
  return join(release, readdirSync(release).find((name) => name.endsWith(".tgz")) ?? "");
}

function pack(work: string): void {
  const release = join(work, "release");
  const args = [RELEASE, "--only", "npm", "--snapshot", "--out", release];
  const env = { ...process.env, SOURCE_DATE_EPOCH: String(PACKED_EPOCH) };
  execFileSync(process.execPath, args, { env, stdio: ["ignore", "ignore", "inherit"] });
  const tarball = tarballIn(release);
  for (const folder of ["built", "app"]) mkdirSync(join(work, folder));
  execFileSync("tar", ["-xzf", tarball, "-C", join(work, "built"), "--strip-components=1"]);
  const app = join(work, "app");
  writeFileSync(join(app, "package.json"), '{ "private": true }');
  execFileSync("npm", ["install", "--offline", "--no-audit", "--no-fund", "--silent", tarball], { cwd: app });
}
