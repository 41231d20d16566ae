// The jobs that wait for the group commit. Owners take turns, so that a group has jobs of each that waits, and none of
// them fills the queue. An owner alone gets the whole group, which is fastest; beside others it gets a part, because
// every job of a group gets its result when the whole group is durable.
import { FairQueue } from "../../fairness/fair-queue.ts";
import { Ledger } from "../../fairness/ledger.ts";
import { SERVICE_OWNER } from "../../fairness/owners.ts";
import { sharesTable } from "../../fairness/shares.ts";
import { fail } from "../../kernel/errors.ts";
import type { QueuedJob } from "./job.ts";

/**
 * Jobs of one account's cells, or of one other owner, in a group while owners compete, that is, two have written
 * within CONTENTION_MS. An account may have any number of cells. While 1,000 claims wait, another owner's claim takes
 * 2.2 ms of CPU time instead of 0.7 alone; without this bound 23 ms. Fewer would double the cost of a claim.
 */
const PER_ACCOUNT_MAX = 16;
const CONTENTION_MS = 1_000;

export class WriteQueue {
  /** Jobs that each owner has in the queue. */
  readonly ledger = new Ledger(sharesTable.writes.limits());
  readonly #jobs = new FairQueue<QueuedJob>({
    weightOf: ({ job }) => job.weight ?? 1,
    ledger: this.ledger,
    evicted: refuse,
  });
  readonly #now: () => number;
  #lastOwner = "";
  #contendedUntil = 0;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  get length(): number {
    return this.#jobs.length;
  }

  /** Rejects the job if its owner has no room. */
  push(pending: QueuedJob): void {
    const { owner = SERVICE_OWNER } = pending.job;
    if (!this.#jobs.push(owner, pending)) return refuse(pending);
    // Not the service itself, nor the operator with the bootstrap token.
    if (owner.id !== this.#lastOwner && owner.kind !== "account") {
      if (this.#lastOwner !== "") this.#contendedUntil = this.#now() + CONTENTION_MS;
      this.#lastOwner = owner.id;
    }
  }

  takeGroup(max: number): QueuedJob[] {
    return this.#jobs.take(max, this.#now() < this.#contendedUntil ? PER_ACCOUNT_MAX : max);
  }

  takeAll(): QueuedJob[] {
    return this.#jobs.take(Number.POSITIVE_INFINITY);
  }
}

function refuse({ reject }: QueuedJob): void {
  reject(fail("share_full"));
}
