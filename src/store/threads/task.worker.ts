// Worker for verification, copies and checks, one task after another.
import { readlinkSync } from "node:fs";
import { constants, setPriority } from "node:os";
import { basename } from "node:path";
import { parentPort, workerData } from "node:worker_threads";
import type { Step } from "../progress.ts";
import type { Task, TaskReply } from "./tasks.ts";

const reply = (message: TaskReply): void => parentPort?.postMessage(message, []);
const onProgress = (progress: Step): void => reply({ progress });

/** Linux has a priority per thread. Does nothing elsewhere. */
function lowerPriority(): void {
  try {
    setPriority(Number(basename(readlinkSync("/proc/thread-self"))), constants.priority.PRIORITY_BELOW_NORMAL);
  } catch {
    // Not supported: run at normal priority.
  }
}

// Before anything is loaded, so that requests go first.
if ((workerData as { lowPriority: boolean }).lowPriority) lowerPriority();

async function run(task: Task): Promise<unknown> {
  const { runTask } = await import("./tasks.ts");
  return runTask(task, onProgress);
}

parentPort?.on("message", (task: Task) => {
  run(task).then(
    (value) => reply({ value: value ?? null }),
    (error: { message: string; code?: string }) => reply({ error: { message: error.message, code: error.code } }),
  );
});
