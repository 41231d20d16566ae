// The command that takes a finished backup off this host. It gets the folder as its argument; what it does not get is
// any secret of Keyrack's own. A hook that fails does not undo the backup, but it is told loudly.
import { spawn } from "node:child_process";
import type { Services } from "../domain/core/context.ts";

export type HookResult = { ok: boolean; code: number | null; message: string | null };

const HOOK_MAX_MS = 60 * 60_000;
const KEPT_CHARS = 500;

function environment(id: string): NodeJS.ProcessEnv {
  const entries = Object.entries(process.env).filter(([name]) => !name.startsWith("KEYRACK_"));
  return { ...Object.fromEntries(entries), KEYRACK_BACKUP_ID: id };
}

/** A stopping instance does not wait for it: the hook is ended, with all it has started. */
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
      detached: true, // a group of its own: the shell's children hold the pipe open when it alone is ended
    });
    const end = (): void => endGroup(child.pid);
    const late = setTimeout(end, HOOK_MAX_MS);
    signal?.addEventListener("abort", end);
    if (signal?.aborted) end();
    let said = "";
    child.stderr.on("data", (chunk: Buffer) => (said = (said + chunk.toString()).slice(-KEPT_CHARS)));
    child.on("error", (error) => resolve({ ok: false, code: null, message: error.message }));
    child.on("close", (code, by) => {
      clearTimeout(late);
      signal?.removeEventListener("abort", end);
      const message = code === 0 ? null : said.trim() || `it ended with ${by ?? code}`;
      resolve({ ok: code === 0, code, message });
    });
  });
}

function endGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGTERM");
  } catch {
    // it has ended already
  }
}
