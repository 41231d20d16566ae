// Runs the operator's command that copies a finished backup off this host, with the backup's folder as its argument.
// The command gets none of Keyrack's own settings, which hold secrets. A failed hook is reported; the backup stays.
import { spawn } from "node:child_process";
import type { Services } from "../domain/core/context.ts";
import { HOUR_MS } from "../kernel/durations.ts";

export type HookResult = { ok: boolean; code: number | null; message: string | null };

const HOOK_MAX_MS = HOUR_MS;
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
): Promise<HookResult | null> {
  const { backup_hook } = services.settings;
  if (backup_hook === "") return null;
  const result = await run(`${backup_hook} "$1"`, folder, environment(id), signal);
  if (!result.ok)
    services.log.error("backup hook failed", { backup_id: id, code: result.code, message: result.message ?? "" });
  return result;
}

function run(script: string, folder: string, env: NodeJS.ProcessEnv, signal?: AbortSignal): Promise<HookResult> {
  return new Promise((resolve) => {
    const child = spawn("/bin/sh", ["-c", script, "keyrack-backup-hook", folder], {
      env,
      stdio: ["ignore", "ignore", "pipe"],
      detached: true, // its own process group: children of the shell would keep the pipe open if only the shell ended
    });
    const end = (): void => endGroup(child.pid);
    const timeout = setTimeout(end, HOOK_MAX_MS);
    signal?.addEventListener("abort", end);
    if (signal?.aborted) end();
    let stderr = "";
    child.stderr.on("data", (chunk: Buffer) => (stderr = (stderr + chunk.toString()).slice(-MESSAGE_MAX_CHARS)));
    child.on("error", (error) => resolve({ ok: false, code: null, message: error.message }));
    child.on("close", (code, signalName) => {
      clearTimeout(timeout);
      signal?.removeEventListener("abort", end);
      const message = code === 0 ? null : stderr.trim() || `it ended with ${signalName ?? code}`;
      resolve({ ok: code === 0, code, message });
    });
  });
}

function endGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGTERM");
  } catch {
    // already ended
  }
}
