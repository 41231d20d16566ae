// Runs a test under a mutant in a warm worker process (worker.ts), which is replaced when a mutant never returns.
import { fork, type ChildProcess } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Order, Verdict } from "./worker.ts";

const WORKER = fileURLToPath(new URL("./worker.ts", import.meta.url));

/** CPU seconds used by a process group, including ended processes of its leader; 0 without /proc. */
function cpuSeconds(group: number): number {
  if (!existsSync("/proc")) return 0;
  let ticks = 0;
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      // The name in parentheses may contain spaces; the numbers after it begin with the third field, the state.
      const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1)!.split(" ").map(Number);
      if (fields[2] !== group) continue;
      ticks += fields[11]! + fields[12]! + (Number(pid) === group ? fields[13]! + fields[14]! : 0);
    } catch {
      // It has ended since.
    }
  }
  return ticks / 100;
}

type Bounds = { seconds: number; cpuSeconds: number };

export class Runner {
  #child: ChildProcess | undefined;
  /** CPU seconds of the last order. */
  used = 0;

  /** Null when the process ended or exceeded its bounds. CPU time detects an endless loop on a busy machine, too. */
  async run(order: Order, bounds: Bounds): Promise<Verdict | null> {
    const child = (this.#child ??= await this.#start());
    const [group, started] = [child.pid!, performance.now()];
    const before = cpuSeconds(group);
    let timer: NodeJS.Timeout | undefined;
    const verdict = await new Promise<Verdict | null>((resolve) => {
      child.once("message", (message) => resolve(message as Verdict));
      child.once("exit", () => resolve(null));
      timer = setInterval(() => {
        this.used = cpuSeconds(group) - before;
        const seconds = (performance.now() - started) / 1000;
        if (this.used > bounds.cpuSeconds || seconds > bounds.seconds) resolve(null);
      }, 500);
      child.send(order);
    });
    clearInterval(timer);
    this.used = cpuSeconds(group) - before;
    child.removeAllListeners();
    if (verdict === null) this.stop();
    return verdict;
  }

  async #start(): Promise<ChildProcess> {
    // Its own process group, so that the test workers end with it.
    const child = fork(WORKER, { detached: true, stdio: "ignore" });
    await new Promise((resolve) => child.once("message", resolve));
    return child;
  }

  stop(): void {
    if (this.#child?.pid !== undefined) process.kill(-this.#child.pid, "SIGKILL");
    this.#child = undefined;
  }
}
