// Verifies audit chains in workers, main-thread side: concurrent callers for a workspace share one run, and few workers
// run at once, so that requests keep the CPU.
import { Worker } from "node:worker_threads";
import { workerSource } from "../../platform/packaged-files.ts";
import { fail } from "../../kernel/errors.ts";
import type { BreakReason } from "../../kernel/audit/chain.ts";
import type { DatabaseTarget } from "../target.ts";
import { isConnectionLost } from "../postgres/connection-lost.ts";

const WORKERS_MAX = 2;

/** The Merkle root (base64) over the first `size` rows. A null root never matches. */
export type ExpectedCheckpoint = { size: number; root: string | null };

export type ChainCheck = {
  checked: number;
  head_seq: number;
  head_hash: string;
  broken_seq: number | null;
  reason: BreakReason | null;
};

type WorkerError = { message: string; code?: string };
type Reply = { value?: ChainCheck; error?: WorkerError };
export type VerifyTask = { target: DatabaseTarget; workspace_id: string; expected: ExpectedCheckpoint[] };

export class VerifyPool {
  readonly #target: DatabaseTarget;
  readonly #running = new Map<string, Promise<ChainCheck>>();
  readonly #workers = new Set<Worker>();
  readonly #waiting: (() => void)[] = [];
  #free = WORKERS_MAX;
  #closed = false;

  constructor(target: DatabaseTarget) {
    this.#target = target;
  }

  check(workspace_id: string, expected: ExpectedCheckpoint[]): Promise<ChainCheck> {
    let running = this.#running.get(workspace_id);
    if (!running) {
      running = this.#run({ target: this.#target, workspace_id, expected }).finally(() =>
        this.#running.delete(workspace_id),
      );
      this.#running.set(workspace_id, running);
    }
    return running;
  }

  /** Terminates running verifications and rejects their callers. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#workers].map((worker) => worker.terminate()));
    await Promise.allSettled(this.#running.values());
  }

  async #run(task: VerifyTask): Promise<ChainCheck> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => void this.#waiting.push(resolve));
    try {
      if (this.#closed) throw fail("stopping", { retryAfterSeconds: 1 });
      return await this.#inWorker(task);
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#free++;
    }
  }

  #inWorker(task: VerifyTask): Promise<ChainCheck> {
    const source = workerSource("store/offline/verify.worker.ts");
    const worker = new Worker(source.code, { eval: source.eval, workerData: { ...task, ...source.data } });
    this.#workers.add(worker);
    return new Promise<ChainCheck>((resolve, reject) => {
      worker.once("message", ({ value, error }: Reply) => (value ? resolve(value) : reject(toError(error))));
      worker.once("error", reject);
      worker.once("exit", () => {
        this.#workers.delete(worker);
        reject(fail(this.#closed ? "stopping" : "unavailable", { retryAfterSeconds: 1 }));
      });
    });
  }
}

function toError(error: WorkerError | undefined): Error {
  if (error && isConnectionLost(error)) return fail("unavailable", { retryAfterSeconds: 1 });
  return Object.assign(new Error(error?.message ?? "chain verification failed"), { code: error?.code });
}
