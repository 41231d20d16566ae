// Worker threads for verification, copies and checks, main-thread side. The stores of a process share them, and a
// thread is kept for a while after its task: starting one takes about 100 ms of CPU.
import { Worker } from "node:worker_threads";
import { fail } from "../../kernel/errors.ts";
import { workerSource } from "../../platform/packaged-files.ts";
import { isConnectionLost } from "../postgres/connection-lost.ts";
import { withSignal, type OnProgress } from "../progress.ts";
import { IdleWorkers } from "./idle-workers.ts";
import type { Task, TaskReply } from "./tasks.ts";

const NO_REPORT: OnProgress = () => {};

export class ThreadPool {
  readonly #workers: IdleWorkers;

  constructor({ lowPriority, keptMs }: { lowPriority: boolean; keptMs?: number }) {
    const start = (): Worker => {
      const { code, eval: isCode, data } = workerSource("store/threads/task.worker.ts");
      return new Worker(code, { eval: isCode, workerData: { lowPriority, ...data } });
    };
    this.#workers = new IdleWorkers(start, { keptMs });
  }

  /** Threads that are running, with a task or without. */
  get size(): number {
    return this.#workers.running;
  }

  /** Aborting the signal of `onProgress` ends the thread and rejects with the signal's reason. */
  async run(task: Task, onProgress: OnProgress = NO_REPORT): Promise<unknown> {
    const { signal } = onProgress;
    signal?.throwIfAborted();
    const worker = this.#workers.take();
    return new Promise((resolve, reject) => {
      const abort = (): void => void worker.terminate();
      const onExit = (): void => done(() => reject(signal?.reason ?? fail("unavailable")));
      const onError = (error: unknown): void => done(() => reject(error));
      const onMessage = ({ progress, value, error }: TaskReply): void => {
        if (signal?.aborted) return; // the thread is ending
        if (progress) return onProgress(progress);
        done(() => (error ? reject(Object.assign(new Error(error.message), { code: error.code })) : resolve(value)));
        void this.#workers.keep(worker);
      };
      const done = (settle: () => void): void => {
        signal?.removeEventListener("abort", abort);
        worker.off("message", onMessage).off("error", onError).off("exit", onExit);
        settle();
      };
      signal?.addEventListener("abort", abort);
      worker.on("message", onMessage).on("error", onError).on("exit", onExit);
      worker.postMessage(task, []);
    });
  }

  /** As `run`, for a store: aborting the signal rejects with its reason; a lost connection is `unavailable`. */
  async runFor<T>(signal: AbortSignal, task: Task): Promise<T> {
    try {
      return (await this.run(task, withSignal(NO_REPORT, signal))) as T;
    } catch (error) {
      throw isConnectionLost(error) ? fail("unavailable") : error;
    }
  }
}

/** For what a request or the start of a server waits for. */
export const threads = new ThreadPool({ lowPriority: false });
/** For copies, complete checks, and reads that may take long: requests go first. */
export const backgroundThreads = new ThreadPool({ lowPriority: true });
