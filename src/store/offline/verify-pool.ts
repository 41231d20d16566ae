// Verifies audit chains in worker threads, main-thread side: concurrent callers for a workspace share one run, and few
// threads run at once, so that requests keep the CPU.
import { fail } from "../../kernel/errors.ts";
import { withSignal } from "../progress.ts";
import type { DatabaseTarget } from "../target.ts";
import { isConnectionLost } from "../postgres/connection-lost.ts";
import { threads } from "./threads.ts";
import type { ChainCheck, ExpectedCheckpoint } from "./verify.ts";

const THREADS_MAX = 2;

export class VerifyPool {
  readonly #target: DatabaseTarget;
  readonly #running = new Map<string, Promise<ChainCheck>>();
  readonly #waiting: (() => void)[] = [];
  readonly #closing = new AbortController();
  #free = THREADS_MAX;

  constructor(target: DatabaseTarget) {
    this.#target = target;
  }

  check(workspace_id: string, expected: ExpectedCheckpoint[]): Promise<ChainCheck> {
    let running = this.#running.get(workspace_id);
    if (!running) {
      running = this.#run(workspace_id, expected).finally(() => this.#running.delete(workspace_id));
      this.#running.set(workspace_id, running);
    }
    return running;
  }

  /** Ends running verifications and rejects their callers. */
  async close(): Promise<void> {
    this.#closing.abort(fail("stopping", { retryAfterSeconds: 1 }));
    await Promise.allSettled(this.#running.values());
  }

  async #run(workspace_id: string, expected: ExpectedCheckpoint[]): Promise<ChainCheck> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => void this.#waiting.push(resolve));
    try {
      const task = { op: "verify", target: this.#target, workspace_id, expected } as const;
      return (await threads.run(
        task,
        withSignal(() => {}, this.#closing.signal),
      )) as ChainCheck;
    } catch (error) {
      throw isConnectionLost(error) ? fail("unavailable", { retryAfterSeconds: 1 }) : error;
    } finally {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#free++;
    }
  }
}
