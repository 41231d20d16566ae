// The state of the usage series in this process: what exceeded a cap or was ignored, for /metrics, and the turns of readers.
import type { Owner } from "../../fairness/owners.ts";
import { fail } from "../../kernel/errors.ts";

export type OverflowKind = "outcome" | "route" | "tag" | "key";

/** Keys of a workspace with details in one hour. */
const KEYS_MAX = 20_000;
const READS_MAX = 8;
const READS_PER_CELL = 2;
const WAITING_PER_CELL = 32;
const WAIT_MS = 2_000;

type Waiting = { readonly owner: Owner; readonly start: () => void };

export class SeriesState {
  readonly overflow: Record<OverflowKind, number> = { outcome: 0, route: 0, tag: 0, key: 0 };
  /** Malformed optional fields of events. */
  readonly ignored: Record<string, number> = { cost: 0, tags: 0, network: 0, user_agent: 0 };
  keysMax = KEYS_MAX;
  /** The owners of the reads that run. */
  readonly #running: Owner[] = [];
  readonly #waiting: Waiting[] = [];

  countIgnored(fields: Readonly<Record<string, number>>): void {
    for (const [field, count] of Object.entries(fields)) this.ignored[field] = (this.ignored[field] ?? 0) + count;
  }

  /** Reads of series and exports take threads, of which an account gets some and a cell few. Further ones wait, then fail. */
  async read<T>(owner: Owner, work: () => Promise<T>): Promise<T> {
    if (this.#hasRoom(owner)) this.#running.push(owner);
    else await this.#wait(owner);
    try {
      return await work();
    } finally {
      this.#running.splice(this.#running.indexOf(owner), 1);
      this.#startNext();
    }
  }

  /** An account runs no more reads than are left free, so that two accounts never take all. */
  #hasRoom(owner: Owner): boolean {
    const { ofAccount, ofCell } = this.#runningOf(owner);
    return ofAccount < READS_MAX - this.#running.length && ofCell < READS_PER_CELL;
  }

  #runningOf({ group, id }: Owner): { ofAccount: number; ofCell: number } {
    const ofAccount = this.#running.filter((each) => each.group === group);
    return { ofAccount: ofAccount.length, ofCell: ofAccount.filter((each) => each.id === id).length };
  }

  /** Resolves when the read may start and counts as running. */
  #wait(owner: Owner): Promise<void> {
    const busy = fail("unavailable", { retryAfterSeconds: 1 });
    if (this.#waiting.filter((each) => each.owner.id === owner.id).length >= WAITING_PER_CELL) throw busy;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
        reject(busy);
      }, WAIT_MS);
      const start = (): void => {
        clearTimeout(timer);
        this.#running.push(owner);
        resolve();
      };
      const waiting: Waiting = { owner, start };
      this.#waiting.push(waiting);
    });
  }

  /** Starts reads: first the one whose account, and then whose cell, has fewest running; of those the one that waits longest. */
  #startNext(): void {
    let [next, fewest] = [-1, Number.POSITIVE_INFINITY];
    for (const [i, { owner }] of this.#waiting.entries()) {
      if (!this.#hasRoom(owner)) continue;
      const { ofAccount, ofCell } = this.#runningOf(owner);
      const running = ofAccount * READS_MAX + ofCell;
      if (running < fewest) [next, fewest] = [i, running];
    }
    if (next < 0) return;
    this.#waiting.splice(next, 1)[0]?.start();
    this.#startNext();
  }
}
