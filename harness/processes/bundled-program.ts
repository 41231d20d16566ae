// The program of a checkout as one script, with a compile cache and a launcher. It starts with a third of the CPU time
// that the checkout's files take.
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { NODE_FLAGS } from "../release/node-flags.ts";

const TOOL = fileURLToPath(new URL("../../tools/test-program.ts", import.meta.url));

const SCRIPT = "keyrack.cjs";

/** Writes script and launcher into a folder of the checkout. */
export async function bundleProgram(checkout: string, folder: string, launcher: string): Promise<void> {
  const script = join(folder, SCRIPT);
  await promisify(execFile)(process.execPath, [TOOL, checkout, script]);
  writeLauncher(folder, launcher);
}

export function writeLauncher(folder: string, launcher: string): void {
  const node = `NODE_COMPILE_CACHE=${quote(join(folder, "cache"))} exec ${quote(process.execPath)}`;
  const flags = [...NODE_FLAGS, "--disable-warning=ExperimentalWarning"].join(" ");
  writeFileSync(launcher, `#!/bin/sh\n${node} ${flags} ${quote(join(folder, SCRIPT))} "$@"\n`, { mode: 0o755 });
}

const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
