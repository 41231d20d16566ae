// WAL sync worker, main-thread side: sends sync and checkpoint requests to the worker.
// bench: vendor/mint
import { Worker } from "node:worker_threads";
import { workerSource } from "../../platform/packaged-files.ts";

type Reply = { id: number; value?: unknown; error?: string; code?: string };
type Waiting = { resolve: (value: unknown) => void; reject: (error: Error) => void };

export type CheckpointResult = { busy: number; log: number; checkpointed: number };

export class WalSync {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, Waiting>();
  #next = 1;
  #ended: Error | undefined;

  constructor(file: string) {
    const source = workerSource("store/sqlite/wal-sync.worker.ts");
    this.#worker = new Worker(source.code, { eval: source.eval, workerData: { file, ...source.data } });
    this.#worker.on("message", (reply: Reply) => this.#settle(reply));
    this.#worker.on("error", (error) => this.#fail(error instanceof Error ? error : new Error(String(error))));
    this.#worker.on("exit", () => this.#fail(new Error("the WAL sync worker ended")));
  }

  sync(): Promise<void> {
    return this.#send("sync") as Promise<void>;
  }

  checkpoint(): Promise<CheckpointResult> {
    return this.#send("checkpoint") as Promise<CheckpointResult>;
  }

  truncate(): Promise<CheckpointResult> {
    return this.#send("truncate") as Promise<CheckpointResult>;
  }

  async close(): Promise<void> {
    await this.#send("close");
    await this.#worker.terminate();
  }

  #send(op: string): Promise<unknown> {
    if (this.#ended) return Promise.reject(this.#ended);
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.#worker.postMessage({ id, op }, []);
    });
  }

  #settle(reply: Reply): void {
    const waiting = this.#waiting.get(reply.id);
    this.#waiting.delete(reply.id);
    if (reply.error === undefined) waiting?.resolve(reply.value);
    else waiting?.reject(Object.assign(new Error(reply.error), { code: reply.code }));
  }

  #fail(error: Error): void {
    this.#ended ??= error;
    for (const waiting of this.#waiting.values()) waiting.reject(error);
    this.#waiting.clear();
  }
}
