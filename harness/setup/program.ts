// Bundles the program that tests start as processes (harness/processes), before any of them runs: one script with a
// compile cache starts with half the CPU time that the files of a checkout need. Its folder is named after a hash of
// the sources and of where they are, which the program names: one made from others is never started.
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { bundleProgram } from "../processes/bundled-program.ts";
import { root } from "../repository.ts";

const programs = join(root, "dist/program");
const SOURCES = ["src", "tools/sea/bundle.ts", "package-lock.json"];
const UNUSED_MS = 24 * 3_600_000;

export async function prepareProgram(): Promise<void> {
  if (process.env.KEYRACK_TEST_BIN) return;
  process.env.KEYRACK_TEST_PROGRAM = await bundledProgram(); // inherited by the test processes
}

/** The launcher of the program that this checkout's sources make. */
export async function bundledProgram(): Promise<string> {
  const folder = join(programs, sourceHash());
  const launcher = join(folder, "keyrack");
  if (!existsSync(launcher)) await makeProgram(folder, launcher);
  return launcher;
}

/** The launcher gets its name last: another run may look for it at any time. */
async function makeProgram(folder: string, launcher: string): Promise<void> {
  removeUnused();
  mkdirSync(folder, { recursive: true });
  const fresh = `${launcher}.${process.pid}`;
  await bundleProgram(root, folder, fresh);
  await fillCache(fresh);
  renameSync(fresh, launcher);
}

/**
 * Node writes the cache when a process ends, with every function that it has compiled by then, and not again. This
 * server ends by itself: after Ctrl-C none would stop it.
 */
async function fillCache(launcher: string): Promise<void> {
  const { PATH = "", TMPDIR = tmpdir() } = process.env;
  const env = { PATH, TMPDIR, KEYRACK_LOG_LEVEL: "error" };
  await promisify(execFile)(launcher, ["ephemeral", "--seed", "--", "true"], { env });
}

function sourceHash(): string {
  const hash = createHash("sha256").update(`${process.version}\0${root}\0`);
  for (const path of SOURCES.flatMap(filesUnder)) hash.update(`${path}\0`).update(readFileSync(join(root, path)));
  return hash.digest("hex").slice(0, 16);
}

function filesUnder(path: string): string[] {
  if (statSync(join(root, path)).isFile()) return [path];
  const entries = readdirSync(join(root, path), { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name).slice(root.length))
    .toSorted();
}

function removeUnused(): void {
  for (const name of existsSync(programs) ? readdirSync(programs) : []) {
    const folder = join(programs, name);
    if (statSync(folder).mtimeMs < Date.now() - UNUSED_MS) rmSync(folder, { recursive: true, force: true });
  }
}
