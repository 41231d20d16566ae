// The jobs that wait for the group commit. Owners take turns, so that a group has jobs of each that waits, and none of
// them fills the queue. An owner alone gets the whole group, which is fastest; beside others it gets a part, because
// every job of a group is answered when the whole group is durable.
import { FairQueue } from "../../fairness/fair-queue.ts";
import { Ledger } from "../../fairness/ledger.ts";
import { SERVICE_OWNER, type Owner } from "../../fairness/owners.ts";
import { sharesTable } from "../../fairness/shares.ts";
import { fail } from "../../kernel/errors.ts";
import type { Pending } from "./job.ts";

/**
 * Jobs of one account's cells, or of one other owner, in a group, while another owner has written within the last
 * moments: an account has as many cells as it likes. Beside 1,000 waiting claims another owner's claim takes 2.2 ms of
 * CPU time instead of 0.7 alone; without this bound 23 ms. Fewer would double the cost of a claim.
 */
const PER_ACCOUNT = 16;
const BESIDE_MS = 1_000;

export class WriteQueue {
  /** Jobs that each owner has in the queue. */
  readonly ledger = new Ledger(sharesTable.writes.limits());
  readonly #jobs = new FairQueue<Pending>(({ job }) => job.weight ?? 1);
  readonly #now: () => number;
  #lastOwner = "";
  #besideUntil = 0;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  get length(): number {
    return this.#jobs.length;
  }

  /** Rejects the job where its owner has no room. */
  push(pending: Pending): void {
    const { owner = SERVICE_OWNER } = pending.job;
    if (!this.ledger.hasRoom(owner) && !this.#makeRoom(owner)) return this.#refuse(owner, pending);
    // Not the service itself, nor the operator with the bootstrap token.
    if (owner.id !== this.#lastOwner && owner.kind !== "account") {
      if (this.#lastOwner !== "") this.#besideUntil = this.#now() + BESIDE_MS;
      this.#lastOwner = owner.id;
    }
    this.ledger.take(owner);
    this.#jobs.push(owner, pending);
  }

  takeGroup(max: number): Pending[] {
    return this.#take(max, this.#now() < this.#besideUntil ? PER_ACCOUNT : max);
  }

  takeAll(): Pending[] {
    return this.#take(Number.POSITIVE_INFINITY);
  }

  #take(max: number, perAccount = max): Pending[] {
    const group = this.#jobs.take(max, perAccount);
    for (const { job } of group) this.ledger.release(job.owner ?? SERVICE_OWNER);
    return group;
  }

  /** Displaces the oldest job of the largest owner to make room for a smaller owner's. */
  #makeRoom(owner: Owner): boolean {
    const victim = this.ledger.victimFor(owner);
    const displaced = victim && this.#jobs.shiftOf(victim);
    if (!displaced) return false;
    this.ledger.release(victim);
    this.#refuse(victim, displaced);
    return true;
  }

  #refuse(owner: Owner, { reject }: Pending): void {
    this.ledger.countRefusal(owner);
    reject(fail("share_full"));
  }
}
