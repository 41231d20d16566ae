// Runs a task of a store in a worker thread, main-thread side.
import { fail } from "../../kernel/errors.ts";
import { isConnectionLost } from "../postgres/connection-lost.ts";
import { withSignal } from "../progress.ts";
import type { Task } from "./tasks.ts";
import type { ThreadPool } from "./pool.ts";

/** Aborting the signal rejects with its reason; a lost connection is `unavailable`. */
export async function runThreadTask<T>(pool: ThreadPool, task: Task, signal: AbortSignal): Promise<T> {
  try {
    return (await pool.run(
      task,
      withSignal(() => {}, signal),
    )) as T;
  } catch (error) {
    throw isConnectionLost(error) ? fail("unavailable") : error;
  }
}
