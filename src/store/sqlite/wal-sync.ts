// WAL sync worker, main-thread side: sends sync and checkpoint requests to the worker. An open database has a thread to
// itself. When it is closed the thread is kept for a while for the next one: starting a thread takes about 50 ms of
// CPU. bench: vendor/mint
import { Worker } from "node:worker_threads";
import { workerSource } from "../../platform/packaged-files.ts";
import { IdleWorkers } from "../threads/idle-workers.ts";

type Op = "open" | "sync" | "copy" | "checkpoint" | "truncate" | "close";
export type WalRequest = { id: number; op: Op; file?: string; waitMs?: number };
type Reply = { id: number; value?: unknown; error?: string; code?: string };
type Waiting = { id: number; resolve: (value: unknown) => void; reject: (error: Error) => void };

export type CheckpointResult = { busy: number; log: number; checkpointed: number };

const KEPT_MAX = 2;

const workers = new IdleWorkers(
  () => {
    const source = workerSource("store/sqlite/wal-sync.worker.ts");
    return new Worker(source.code, { eval: source.eval, workerData: source.data });
  },
  { max: KEPT_MAX },
);

export class WalSync {
  readonly #worker: Worker;
  /** Few at a time. */
  #waiting: Waiting[] = [];
  #next = 1;
  #ended: Error | undefined;
  readonly #onMessage = (reply: Reply): void => this.#settle(reply);
  readonly #onError = (error: unknown): void => this.#fail(error instanceof Error ? error : new Error(String(error)));
  readonly #onExit = (): void => this.#fail(new Error("the WAL sync worker ended"));

  constructor(file: string) {
    this.#worker = workers.take();
    this.#worker.on("message", this.#onMessage).on("error", this.#onError).on("exit", this.#onExit);
    // A database that cannot be opened fails every request, now and later.
    this.#send("open", { file }).catch((error: Error) => this.#fail(error));
  }

  sync(): Promise<void> {
    return this.#send("sync") as Promise<void>;
  }

  /** Copies the pages of the -wal into the database while commits continue. */
  copy(): Promise<CheckpointResult> {
    return this.#send("copy") as Promise<CheckpointResult>;
  }

  /** Waits for readers up to `waitMs`; without commits in between, later readers do not need the -wal. */
  checkpoint(waitMs = 0): Promise<CheckpointResult> {
    return this.#send("checkpoint", { waitMs }) as Promise<CheckpointResult>;
  }

  truncate(): Promise<CheckpointResult> {
    return this.#send("truncate") as Promise<CheckpointResult>;
  }

  async close(): Promise<void> {
    await this.#send("close");
    this.#worker.off("message", this.#onMessage).off("error", this.#onError).off("exit", this.#onExit);
    await workers.keep(this.#worker);
  }

  #send(op: Op, more: Pick<WalRequest, "file" | "waitMs"> = {}): Promise<unknown> {
    if (this.#ended) return Promise.reject(this.#ended);
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#waiting.push({ id, resolve, reject });
      this.#worker.postMessage({ id, op, ...more } satisfies WalRequest, []);
    });
  }

  #settle(reply: Reply): void {
    const waiting = this.#waiting.find(({ id }) => id === reply.id);
    this.#waiting = this.#waiting.filter((other) => other !== waiting);
    if (reply.error === undefined) waiting?.resolve(reply.value);
    else waiting?.reject(Object.assign(new Error(reply.error), { code: reply.code }));
  }

  #fail(error: Error): void {
    this.#ended ??= error;
    for (const waiting of this.#waiting.splice(0)) waiting.reject(error);
  }
}
