// Runs before each test file. A program that a test runs synchronously stops the whole process, and with it vitest's
// own deadlines: one that hangs would hang the run. So each gets a deadline, unless it has one.
import childProcess from "node:child_process";
import { syncBuiltinESMExports } from "node:module";
import { TEST_DEADLINE_MS } from "../waiting.ts";

/** Longer than that of a test: building and installing a package takes minutes on a busy machine. */
const DEADLINE = { timeout: TEST_DEADLINE_MS * 2, killSignal: "SIGKILL" } as const;
const PATCHED = Symbol.for("keyrack.sync-deadlines");

/** Completes the options, which may be left out, of a call such as `spawnSync(command, args, options)`. */
export function withDeadline(args: readonly unknown[]): unknown[] {
  const last = args.at(-1);
  const hasOptions = typeof last === "object" && last !== null && !Array.isArray(last);
  return [...(hasOptions ? args.slice(0, -1) : args), { ...DEADLINE, ...(hasOptions && last) }];
}

const shared = globalThis as { [PATCHED]?: true };
if (!shared[PATCHED]) {
  shared[PATCHED] = true;
  for (const name of ["spawnSync", "execFileSync", "execSync"] as const) {
    const original = childProcess[name] as (...args: unknown[]) => unknown;
    Object.assign(childProcess, { [name]: (...args: unknown[]) => original(...withDeadline(args)) });
  }
  syncBuiltinESMExports();
}
