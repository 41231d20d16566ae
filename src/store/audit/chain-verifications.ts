// Verifies audit chains in worker threads, main-thread side: concurrent callers for a workspace share one run. Few
// threads run at once, so that requests keep the CPU, and in slices: next is a chain of the account that has used least
// time in the last minute, so that a short one does not wait for long or many ones.
import { RecentTime } from "../../fairness/recent-time.ts";
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

type Run = { readonly account: string; usedMs: number; seq: number; result: Promise<ChainCheck> };
type Waiting = { run: Run; start: () => void };

export type VerifyOptions = {
  /** The part that needs no verification. */
  from?: VerifiedPart | undefined;
  /** Whose time it uses; by default the workspace's own. */
  account?: string | undefined;
};

export class ChainVerifications {
  readonly #target: DatabaseTarget;
  readonly #signal: AbortSignal;
  readonly #running = new Map<string, Run>();
  readonly #waiting: Waiting[] = [];
  readonly #recent = new RecentTime();
  #free = THREADS_MAX;

  /** Aborting the signal ends running verifications and rejects their callers with its reason. */
  constructor(target: DatabaseTarget, signal: AbortSignal) {
    this.#target = target;
    this.#signal = signal;
  }

  check(
    workspace_id: string,
    expected: ExpectedCheckpoint[],
    { from = NOTHING_VERIFIED, account = workspace_id }: VerifyOptions = {},
  ): Promise<ChainCheck> {
    const key = `${workspace_id} ${from.seq}`;
    const running = this.#running.get(key);
    if (running) return running.result;
    const run: Run = { account, usedMs: 0, seq: from.seq, result: Promise.resolve() as never };
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
      const usedMs = performance.now() - started;
      run.usedMs += usedMs;
      this.#recent.add(run.account, usedMs);
      this.#releaseThread();
    }
  }

  #releaseThread(): void {
    const usedBy = ({ run }: Waiting): number => this.#recent.of(run.account);
    const [next] = this.#waiting.toSorted((a, b) => usedBy(a) - usedBy(b) || a.run.usedMs - b.run.usedMs);
    if (next) this.#waiting.splice(this.#waiting.indexOf(next), 1);
    if (next) next.start();
    else this.#free++;
  }
}
