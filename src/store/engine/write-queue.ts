// The jobs that wait for the group commit. Owners take turns, so that a group has jobs of each that waits, and none of them
// fills the queue.
import { FairQueue } from "../../fairness/fair-queue.ts";
import { Ledger } from "../../fairness/ledger.ts";
import { soleOwner, type Owner } from "../../fairness/owners.ts";
import { sharesTable } from "../../fairness/shares.ts";
import { fail } from "../../kernel/errors.ts";
import type { Pending } from "./job.ts";

const SERVICE = soleOwner("account", "service");

export class WriteQueue {
  /** What each owner has in the queue. */
  readonly ledger = new Ledger(sharesTable.writes.limits());
  readonly #jobs = new FairQueue<Pending>();

  get length(): number {
    return this.#jobs.length;
  }

  /** Rejects the job where its owner has no room. */
  push(pending: Pending): void {
    const { owner = SERVICE } = pending.job;
    if (!this.ledger.hasRoom(owner) && !this.#makeRoom(owner)) return this.#refuse(owner, pending);
    this.ledger.take(owner);
    this.#jobs.push(owner, pending);
  }

  take(max: number): Pending[] {
    const group = this.#jobs.take(max);
    for (const { job } of group) this.ledger.release(job.owner ?? SERVICE);
    return group;
  }

  /** The oldest job of the owner that has most makes room for one that has less. */
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
    reject(fail("share_full", { retryAfterSeconds: 1 }));
  }
}
