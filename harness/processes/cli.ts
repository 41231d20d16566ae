// Runs keyrack as a user would, with a clean environment.
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runHere } from "./cli-here.ts";
import { BIN, cleanEnv } from "./server.ts";

export type Ran = { code: number | null; stdout: string; stderr: string };
export type CliOptions = { env?: Record<string, string>; cwd?: string; input?: string };

/** They handle signals and change the process they run in. */
const SERVERS = new Set(["serve", "ephemeral", "gateway"]);

/**
 * Runs a command in this process: starting another takes more CPU time than what most commands do. Servers are
 * processes, and every command is one when `npm run test:binary` tests a binary.
 */
export function keyrack(args: string[], options: CliOptions = {}): Promise<Ran> {
  const isProcess = process.env.KEYRACK_TEST_BIN !== undefined || args.some((word) => SERVERS.has(word));
  return isProcess ? keyrackProcess(args, options) : runHere(args, { ...options, env: cleanEnv(options.env) });
}

export function refusedServe(args: readonly string[], env: Record<string, string> = {}, cwd = tmpdir()): Promise<Ran> {
  return refusedStart(["serve", ...args], env, cwd);
}

/**
 * A start that is refused before it changes anything of the process that it runs in; of the binary, if that is
 * tested.
 */
export function refusedStart(words: string[], env: Record<string, string>, cwd: string): Promise<Ran> {
  return process.env.KEYRACK_TEST_BIN === undefined
    ? runHere(words, { env: cleanEnv(env), cwd })
    : keyrackProcess(words, { env, cwd });
}

export function keyrackProcess(args: string[], options: CliOptions & { bin?: string } = {}): Promise<Ran> {
  return new Promise((resolve) => {
    const { bin = BIN, cwd } = options;
    const child = spawn(bin, args, { env: cleanEnv(options.env), cwd, stdio: ["pipe", "pipe", "pipe"] });
    const ran: Ran = { code: null, stdout: "", stderr: "" };
    child.stdout.on("data", (chunk: Buffer) => (ran.stdout += chunk.toString()));
    child.stderr.on("data", (chunk: Buffer) => (ran.stderr += chunk.toString()));
    child.on("close", (code) => resolve({ ...ran, code }));
    child.stdin.end(options.input ?? "");
  });
}

/** The data of ephemeral instances whose temporary folder this is. */
export const ephemeralFolders = (dir: string): string[] =>
  readdirSync(dir).filter((name) => name.startsWith("keyrack-ephemeral-"));

export function tempDir(): { dir: string } & Disposable {
  const dir = mkdtempSync(join(tmpdir(), "keyrack-test-"));
  return { dir, [Symbol.dispose]: () => rmSync(dir, { recursive: true, force: true }) };
}
