// Yields to the event loop, so that long work lets other requests run in between.
import { chunked } from "../kernel/chunks.ts";

/** Resolves after the events that are already due: requests that arrived, reads that ended. */
export const yieldToEventLoop = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Begins each read in a turn of its own, because SQLite holds the event loop for it. On PostgreSQL they overlap. */
export async function mapInTurns<T, R>(all: readonly T[], read: (one: T) => Promise<R>): Promise<R[]> {
  const reading: Promise<R>[] = [];
  for (const one of all) {
    const result = read(one);
    result.catch(() => {}); // the caller gets the error below
    reading.push(result);
    await yieldToEventLoop();
  }
  return Promise.all(reading);
}

const HOLD_LOOP_MS = 2;

/** Long work that holds the event loop for a moment at a time. */
export class LoopShare {
  readonly #holdMs: number;
  #since = performance.now();

  constructor(holdMs = HOLD_LOOP_MS) {
    this.#holdMs = holdMs;
  }

  get isDue(): boolean {
    return performance.now() - this.#since >= this.#holdMs;
  }

  async yieldIfDue(): Promise<void> {
    if (!this.isDue) return;
    await yieldToEventLoop();
    this.#since = performance.now();
  }
}

/** Calls `work` with some of the items at a time, in order: as many as hold the event loop for a few milliseconds. */
export async function forPieces<T>(
  items: readonly T[],
  size: number,
  work: (some: T[]) => Promise<unknown>,
): Promise<void> {
  const loop = new LoopShare();
  for (const some of chunked(items, size)) {
    await work(some);
    await loop.yieldIfDue();
  }
}
