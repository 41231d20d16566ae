// Verifies audit chains in worker threads, main-thread side: concurrent callers for a workspace share one run. Few
// threads run at once, so that requests keep the CPU, and in slices: the chain that has used least time is next, so
// that a short one does not wait for long ones.
import type { DatabaseTarget } from "../target.ts";
import type { Task } from "../threads/tasks.ts";
import { threads } from "../threads/pool.ts";
import {
  NOTHING_VERIFIED,
  type ChainCheck,
  type ChainSlice,
  type ExpectedCheckpoint,
  type VerifiedPart,
} from "./verify.ts";

const THREADS_MAX = 2;
const SLICE_MS = 250;

type Run = { usedMs: number; seq: number; result: Promise<ChainCheck> };
type Waiting = { run: Run; start: () => void };

export class ChainVerifications {
  readonly #target: DatabaseTarget;
  readonly #signal: AbortSignal;
  readonly #running = new Map<string, Run>();
  readonly #waiting: Waiting[] = [];
  #free = THREADS_MAX;

  /** Aborting the signal ends running verifications and rejects their callers with its reason. */
  constructor(target: DatabaseTarget, signal: AbortSignal) {
    this.#target = target;
    this.#signal = signal;
  }

  /** `from` is the part that needs no verification. */
  check(
    workspace_id: string,
    expected: ExpectedCheckpoint[],
    from: VerifiedPart = NOTHING_VERIFIED,
  ): Promise<ChainCheck> {
    const key = `${workspace_id} ${from.seq}`;
    const running = this.#running.get(key);
    if (running) return running.result;
    const run: Run = { usedMs: 0, seq: from.seq, result: Promise.resolve() as never };
    run.result = this.#run(run, workspace_id, expected, from).finally(() => this.#running.delete(key));
    this.#running.set(key, run);
    return run.result;
  }

  /** Rows that the running verification of the whole chain has passed; null when there is none. */
  progressOf(workspace_id: string): number | null {
    return this.#running.get(`${workspace_id} 0`)?.seq ?? null;
  }

  /** Resolves when those that run now have ended. */
  async settled(): Promise<void> {
    await Promise.allSettled([...this.#running.values()].map(({ result }) => result));
  }

  async #run(
    run: Run,
    workspace_id: string,
    checkpoints: ExpectedCheckpoint[],
    start: VerifiedPart,
  ): Promise<ChainCheck> {
    let slice: ChainSlice = { part: start, roots: [], check: null };
    while (!slice.check) {
      const options = { checkpoints, from: slice, since: start.seq };
      const task = { op: "verify", target: this.#target, workspace_id, options, maxMs: SLICE_MS } as const;
      slice = await this.#inThread(run, task);
      run.seq = slice.part.seq;
    }
    return slice.check;
  }

  async #inThread(run: Run, task: Task): Promise<ChainSlice> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((start) => void this.#waiting.push({ run, start }));
    const started = performance.now();
    try {
      return await threads.runFor<ChainSlice>(this.#signal, task);
    } finally {
      run.usedMs += performance.now() - started;
      this.#releaseThread();
    }
  }

  #releaseThread(): void {
    const least = Math.min(...this.#waiting.map(({ run }) => run.usedMs));
    const at = this.#waiting.findIndex(({ run }) => run.usedMs === least);
    const [next] = at < 0 ? [] : this.#waiting.splice(at, 1);
    if (next) next.start();
    else this.#free++;
  }
}
