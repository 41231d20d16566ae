// Runs the operator's command that copies a finished backup off this host, with the backup's folder as its argument.
// The command gets none of Keyrack's own settings, which hold secrets. A failed hook is reported; the backup stays.
import { spawn } from "node:child_process";
import type { Socket } from "node:net";
import type { Services } from "../domain/core/context.ts";
import { HOUR_MS, SECOND_MS } from "../kernel/durations.ts";

export type HookResult = { ok: boolean; code: number | null; message: string | null };

type HookJob = { script: string; folder: string; env: NodeJS.ProcessEnv; signal: AbortSignal | undefined };
type HookLimits = {
  maxMs: number;
  /** From SIGTERM to SIGKILL. */
  killMs: number;
  /** From the end of the shell to the end of its stderr. */
  stderrMs: number;
};

const LIMITS: HookLimits = { maxMs: HOUR_MS, killMs: 10 * SECOND_MS, stderrMs: SECOND_MS };
const MESSAGE_MAX_CHARS = 500;

function environment(id: string): NodeJS.ProcessEnv {
  const entries = Object.entries(process.env).filter(([name]) => !name.startsWith("KEYRACK_"));
  return { ...Object.fromEntries(entries), KEYRACK_BACKUP_ID: id };
}

/** Aborting `signal` ends the hook and every process it started. Null when no hook is configured. */
export async function runHook(
  services: Services,
  id: string,
  folder: string,
  signal?: AbortSignal,
  limits = LIMITS,
): Promise<HookResult | null> {
  const { backup_hook } = services.settings;
  if (backup_hook === "") return null;
  const result = await run({ script: `${backup_hook} "$1"`, folder, env: environment(id), signal }, limits);
  if (!result.ok)
    services.log.error("backup hook failed", { backup_id: id, code: result.code, message: result.message ?? "" });
  return result;
}

function run(job: HookJob, limits: HookLimits): Promise<HookResult> {
  const { script, folder, env, signal } = job;
  return new Promise((resolve) => {
    const child = spawn("/bin/sh", ["-c", script, "keyrack-backup-hook", folder], {
      env,
      stdio: ["ignore", "ignore", "pipe"],
      detached: true, // its own process group, so that what the shell started can be ended with it
    });
    const timers = new Set<NodeJS.Timeout>();
    const after = (ms: number, work: () => void): void => void timers.add(setTimeout(work, ms));
    let isEnding = false;
    const end = (): void => {
      isEnding = true;
      signalGroup(child.pid, "SIGTERM");
      after(limits.killMs, () => signalGroup(child.pid, "SIGKILL"));
    };
    const settle = (result: HookResult): void => {
      for (const timer of timers) clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      if (isEnding) signalGroup(child.pid, "SIGKILL"); // what ignored the first signal
      (child.stderr as Socket).unref();
      resolve(result);
    };
    after(limits.maxMs, end);
    signal?.addEventListener("abort", end);
    if (signal?.aborted) end();
    let stderr = "";
    child.stderr.on("data", (chunk: Buffer) => (stderr = (stderr + chunk.toString()).slice(-MESSAGE_MAX_CHARS)));
    child.on("error", (error) => settle({ ok: false, code: null, message: error.message }));
    child.on("exit", (code, signalName) => {
      const finish = (): void => {
        const message = code === 0 ? null : stderr.trim() || `it ended with ${signalName ?? code}`;
        settle({ ok: code === 0, code, message });
      };
      child.on("close", finish);
      after(limits.stderrMs, finish); // a process that the hook left in the background may keep stderr open
    });
  });
}

function signalGroup(pid: number | undefined, name: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, name);
  } catch {
    // already ended
  }
}
