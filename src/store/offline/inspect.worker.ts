// Worker for copies and checks. Lowers its priority before it loads anything, so that requests go first.
import { readlinkSync } from "node:fs";
import { constants, setPriority } from "node:os";
import { basename } from "node:path";
import { parentPort, workerData } from "node:worker_threads";
import type { InspectTask } from "./inspect.ts";
import type { Step } from "../progress.ts";

const task = workerData as InspectTask;
const onProgress = (progress: Step): void => parentPort?.postMessage({ progress }, []);

/** Linux has a priority per thread. Does nothing elsewhere. */
function lowerPriority(): void {
  try {
    setPriority(Number(basename(readlinkSync("/proc/thread-self"))), constants.priority.PRIORITY_LOW);
  } catch {
    // Not supported: run at normal priority.
  }
}

async function main(): Promise<unknown> {
  if (task.op !== "quick") lowerPriority(); // a server start waits for the quick check
  const { runTask } = await import("./inspect-tasks.ts");
  return runTask(task, onProgress);
}

main().then(
  (value) => parentPort?.postMessage({ value: value ?? null }, []),
  (error: { message: string; code?: string }) =>
    parentPort?.postMessage({ error: { message: error.message, code: error.code } }, []),
);
