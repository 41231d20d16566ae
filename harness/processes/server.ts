// A real Keyrack process for campaigns and CLI tests, stopped by its process id.
import { spawn, type ChildProcess } from "node:child_process";
import { tmpdir } from "node:os";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** The checkout's launcher. */
export const CHECKOUT = fileURLToPath(new URL("../../bin/keyrack", import.meta.url));
const { KEYRACK_TEST_BIN, KEYRACK_TEST_PROGRAM } = process.env;
/**
 * The binary that `npm run test:binary` names, else the program bundled for the test run (harness/setup/program.ts).
 */
export const BIN = KEYRACK_TEST_BIN ?? KEYRACK_TEST_PROGRAM ?? CHECKOUT;

type Ready = { url: string; pid: number; data_dir: string; bootstrap_token_file: string | null } & Record<
  string,
  unknown
>;
export type Running = {
  ready: Ready;
  child: ChildProcess;
  stderr: () => string;
  readyMs: number;
  /** Sends a signal and resolves with the exit code, or the signal that ended it. */
  end(signal: NodeJS.Signals): Promise<number | NodeJS.Signals>;
};

/** Not a folder, and none can be created there: keeps the developer's own CLI profiles out. */
const NO_PROFILES = "/dev/null";

/** A clean environment: none of the caller's settings and profiles reaches the process. */
export function cleanEnv(more: Record<string, string> = {}): Record<string, string> {
  const { PATH = "", HOME = "/tmp" } = process.env;
  return { PATH, HOME, TMPDIR: tmpdir(), XDG_CONFIG_HOME: NO_PROFILES, ...more };
}

/** `spawned` gets the process before it is ready. */
export function startServer(
  args: string[],
  env: Record<string, string> = {},
  bin = BIN,
  spawned: (child: ChildProcess) => void = () => {},
): Promise<Running> {
  return startProcess(["serve", "--json", "--port", "0", ...args], env, bin, spawned);
}

/** Any command that prints one JSON line when it is ready and runs until it gets a signal. */
export async function startProcess(
  args: string[],
  env: Record<string, string> = {},
  bin = BIN,
  spawned: (child: ChildProcess) => void = () => {},
): Promise<Running> {
  const started = performance.now();
  const child = spawn(bin, args, {
    env: cleanEnv(env),
    stdio: ["ignore", "pipe", "pipe"],
  });
  spawned(child);
  let stderr = "";
  child.stderr.on("data", (chunk: Buffer) => (stderr = (stderr + chunk.toString()).slice(-20_000)));
  const exited = new Promise<number | NodeJS.Signals>((resolve) => {
    child.on("exit", (code, signal) => resolve(signal ?? code ?? -1));
  });
  const line = await Promise.race([
    new Promise<string>((resolve) => createInterface({ input: child.stdout }).once("line", resolve)),
    exited.then((code) => Promise.reject(new Error(`it ended with ${code}: ${stderr}`))),
  ]);
  return {
    ready: JSON.parse(line) as Ready,
    child,
    stderr: () => stderr,
    readyMs: performance.now() - started,
    end: (signal) => {
      child.kill(signal);
      return exited;
    },
  };
}
