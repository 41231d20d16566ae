// Worker threads that are kept for a while after their work, for the next: starting one is expensive.
import type { Worker } from "node:worker_threads";

const KEPT_MS = 30_000;

/** `max`: how many are kept at a time. */
type Options = { max?: number; keptMs?: number | undefined };

export class IdleWorkers {
  readonly #start: () => Worker;
  readonly #max: number;
  readonly #keptMs: number;
  /** Threads without work, each with the timer that ends it. */
  readonly #idle = new Map<Worker, NodeJS.Timeout>();
  #running = 0;

  constructor(start: () => Worker, { max = Infinity, keptMs = KEPT_MS }: Options = {}) {
    this.#start = start;
    this.#max = max;
    this.#keptMs = keptMs;
  }

  /** Threads that are running, with work or without. */
  get running(): number {
    return this.#running;
  }

  take(): Worker {
    // The one with the latest work, which may have kept a connection; so surplus threads end.
    const worker = [...this.#idle.keys()].at(-1);
    if (!worker) return this.#startWorker();
    this.#remove(worker);
    worker.ref();
    return worker;
  }

  async keep(worker: Worker): Promise<void> {
    if (this.#idle.size >= this.#max) return void (await worker.terminate());
    const end = (): void => {
      this.#remove(worker);
      void worker.terminate();
    };
    worker.unref();
    this.#idle.set(worker, setTimeout(end, this.#keptMs).unref());
  }

  #startWorker(): Worker {
    const worker = this.#start();
    this.#running++;
    worker.on("error", () => {}); // without work there is no caller to reject; it exits
    worker.on("exit", () => {
      this.#running--;
      this.#remove(worker);
    });
    return worker;
  }

  #remove(worker: Worker): void {
    clearTimeout(this.#idle.get(worker));
    this.#idle.delete(worker);
  }
}
