// The Node that a binary is made of: the installed package for this machine's platform, the registry's for another.
// Both are the bytes that the lock file names.
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { lockedIntegrity } from "../inventory/lock.ts";
import { root, type Target } from "./targets.ts";

const run = promisify(execFile);

/** The path of the target's Node. `work` takes what is fetched. */
export async function baseNode(target: Target, work: string): Promise<string> {
  const folder = `node_modules/node-${target}`;
  const installed = join(root, folder, "bin/node");
  if (existsSync(installed)) return installed;
  const name = `node-${target}@${process.versions.node}`;
  console.error(`fetching ${name} …`);
  const fetched = join(work, `node-${target}`);
  mkdirSync(fetched);
  const args = ["pack", "--silent", "--prefer-offline", "--pack-destination", fetched, name];
  const { stdout } = await run("npm", args, { cwd: fetched });
  const archive = join(fetched, stdout.trim().split("\n").at(-1) ?? "");
  const digest = createHash("sha512").update(readFileSync(archive)).digest("base64");
  if (`sha512-${digest}` !== lockedIntegrity(root, folder))
    throw new Error(`${name} is not the package that the lock file names`);
  await run("tar", ["-xzf", archive, "-C", fetched, "package/bin/node"]);
  return join(fetched, "package/bin/node");
}
