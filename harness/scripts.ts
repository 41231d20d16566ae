// Runs scripts of Node: as processes, and in this one, because a script of a few milliseconds takes fifty to start.
import { spawnSync } from "node:child_process";
import { copyFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { vi } from "vitest";

export type RanScript = { code: number | string | null | undefined; out: string; err: string };

export function runScript(script: string, args: readonly string[]): RanScript {
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, ...args], { encoding: "utf8" });
  return { code: status, out: stdout, err: stderr };
}

let copies = 0;

/** The same for a synchronous script. A module runs once: each run loads a copy of its own, in `folder`. */
export function runScriptHere(script: string, args: readonly string[], folder: string): RanScript {
  const copy = join(folder, `script-${++copies}.mjs`);
  copyFileSync(script, copy);
  const { argv, exitCode } = process;
  const printed = { log: "", error: "" };
  const spies = (["log", "error"] as const).map((stream) =>
    vi.spyOn(console, stream).mockImplementation((text: string) => void (printed[stream] += `${text}\n`)),
  );
  process.argv = [process.execPath, copy, ...args];
  try {
    createRequire(import.meta.url)(copy);
    return { code: process.exitCode, out: printed.log, err: printed.error };
  } finally {
    [process.argv, process.exitCode] = [argv, exitCode];
    for (const spy of spies) spy.mockRestore();
  }
}
