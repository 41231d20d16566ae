// The thread that inspections run on. It steps back before it loads anything: requests go first.
import { readlinkSync } from "node:fs";
import { constants, setPriority } from "node:os";
import { basename } from "node:path";
import { parentPort, workerData } from "node:worker_threads";
import type { InspectTask } from "./inspect.ts";
import type { Step } from "../progress.ts";

const task = workerData as InspectTask;
const tell = (progress: Step): void => parentPort?.postMessage({ progress }, []);

/** On Linux a thread has a priority of its own. Elsewhere this does nothing. */
function stepBack(): void {
  try {
    setPriority(Number(basename(readlinkSync("/proc/thread-self"))), constants.priority.PRIORITY_LOW);
  } catch {
    // No such thing here: the work is done all the same.
  }
}

async function main(): Promise<unknown> {
  if (task.op !== "quick") stepBack(); // a start waits for the quick check
  const { perform } = await import("./inspect-tasks.ts");
  return perform(task, tell);
}

main().then(
  (value) => parentPort?.postMessage({ value: value ?? null }, []),
  (error: { message: string; code?: string }) =>
    parentPort?.postMessage({ error: { message: error.message, code: error.code } }, []),
);
