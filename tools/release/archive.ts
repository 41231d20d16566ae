// Reproducible archives: order, owner, modes and times do not depend on the machine. gzip is the program and not Node's
// zlib, whose output differs between processors.
import { execFile } from "node:child_process";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Packs the folder `name` of `parent`. */
export async function packFolder(parent: string, name: string, archive: string, epoch: number): Promise<void> {
  const fixed = ["--format=ustar", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX"];
  // Level 9 saves 0.5 % for 2.6 times the CPU time.
  const args = [...fixed, `--mtime=@${epoch}`, "--use-compress-program=gzip -n -6", "-C", parent, "-cf", archive, name];
  await run("tar", args, { env: { ...process.env, LC_ALL: "C" } });
}
