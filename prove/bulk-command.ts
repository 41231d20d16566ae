// `keyrack key bulk` as a process that is killed, or whose server is, after some of its calls; its progress file says
// how many.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { BIN, cleanEnv } from "../harness/processes/server.ts";

const PROGRESS = /^keyrack-bulk-.*\.json$/;
const POLL_MS = 2;

export type CommandRun = { code: number | null; stdout: string; stderr: string };
type Progress = { file: string; calls: number };

export class BulkCommand {
  readonly #dir: string;
  readonly #env: Record<string, string>;

  constructor(dir: string, { url, key }: { url: string; key: string }) {
    this.#dir = dir;
    this.#env = cleanEnv({ KEYRACK_URL: url, KEYRACK_SECRET_KEY: key, HOME: dir, NO_COLOR: "1" });
  }

  /**
   * Null before the first call and after the last. The command replaces the file at once, so it is never half-written.
   */
  progress(): Progress | null {
    const file = readdirSync(this.#dir).find((name) => PROGRESS.test(name));
    if (file === undefined) return null;
    try {
      const { calls } = JSON.parse(readFileSync(join(this.#dir, file), "utf8")) as { calls: number };
      return { file, calls };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return null; // the last call has just ended
      throw error;
    }
  }

  /** Runs to the end. With `interrupt`: calls it after that many calls, unless the command has ended before. */
  async run(args: string[], interrupt?: { afterCalls: number; by: (kill: () => void) => Promise<void> }) {
    const ran: CommandRun = { code: null, stdout: "", stderr: "" };
    const child = spawn(BIN, args, { env: this.#env, cwd: this.#dir, stdio: ["ignore", "pipe", "pipe"] });
    child.stdout.on("data", (chunk: Buffer) => (ran.stdout += chunk.toString()));
    child.stderr.on("data", (chunk: Buffer) => (ran.stderr += chunk.toString()));
    const closed = once(child, "close");
    const runs = (): boolean => child.exitCode === null && child.signalCode === null;
    if (interrupt) {
      const wanted = (this.progress()?.calls ?? 0) + interrupt.afterCalls;
      while (runs() && (this.progress()?.calls ?? -1) < wanted) await sleep(POLL_MS);
      if (runs()) await interrupt.by(() => child.kill("SIGKILL"));
    }
    const [code] = await closed;
    ran.code = code as number | null;
    return ran;
  }
}
