// Slots for reads that cost much: few run at the same time, and fewer of one owner. Further ones wait a moment for a
// slot and are then refused.
import { fail } from "../kernel/errors.ts";
import { FairSet } from "./fair-set.ts";
import { Ledger } from "./ledger.ts";
import type { Owner } from "./owners.ts";

const WAIT_MS = 2_000;

export type SlotLimits = {
  /**
   * Maximum for all owners. An account gets a slot only while it has fewer than are free, so that two never take all.
   */
  readonly atOnce: number;
  readonly perOwner: number;
  readonly waitMs: number;
  /** Maximum of one owner's waiting reads; further ones are refused at once. */
  readonly waitingPerOwner: number;
  /** The failure of a read that gets no slot. */
  readonly refusal: "unavailable" | "share_full";
};

/** Limits for reads in worker threads. */
export const THREAD_READS: SlotLimits = {
  atOnce: 8,
  perOwner: 2,
  waitMs: WAIT_MS,
  waitingPerOwner: 32,
  refusal: "unavailable",
};

/** Limits for reads of all nodes, or all keys, of a project. */
export const FLEET_READS: SlotLimits = {
  atOnce: Number.POSITIVE_INFINITY,
  perOwner: 2,
  waitMs: WAIT_MS,
  waitingPerOwner: 1_000,
  refusal: "share_full",
};

type Waiting = { readonly owner: Owner; readonly start: () => void; readonly refuse: () => void };

export class ReadSlots {
  readonly #running: Ledger;
  /** Longest waiting first. */
  readonly #waiting: FairSet<Waiting>;
  readonly #limits: SlotLimits;
  readonly #ledger: Ledger;

  /** `ledger` counts refusals. */
  constructor(limits: SlotLimits, ledger: Ledger) {
    this.#running = new Ledger({ bound: limits.atOnce, share: limits.perOwner });
    const waiting = new Ledger({ bound: Number.POSITIVE_INFINITY, share: limits.waitingPerOwner });
    this.#waiting = new FairSet(waiting, ({ refuse }) => refuse());
    this.#limits = limits;
    this.#ledger = ledger;
  }

  /** Runs the work as soon as there is a slot. After a wait it calls `recheck` first, which may throw. */
  async run<T>(owner: Owner, work: () => Promise<T>, recheck: () => Promise<void> = async () => {}): Promise<T> {
    const waits = !this.#hasSlot(owner);
    if (waits) await this.#wait(owner);
    else this.#running.take(owner);
    try {
      if (waits) await recheck();
      return await work();
    } finally {
      this.#running.release(owner);
      this.#startNext();
    }
  }

  #hasSlot(owner: Owner): boolean {
    const running = this.#running;
    return running.withinShare(owner) && running.usedByGroup(owner) < this.#limits.atOnce - running.used;
  }

  /** Resolves when the read may start and counts as running. */
  #wait(owner: Owner): Promise<void> {
    return new Promise((resolve, reject) => {
      const start = (): void => {
        clearTimeout(timer);
        this.#running.take(owner);
        resolve();
      };
      const refuse = (): void => {
        this.#ledger.countRefusal(owner);
        reject(fail(this.#limits.refusal));
      };
      const waiting: Waiting = { owner, start, refuse };
      if (!this.#waiting.add(owner, waiting)) return refuse();
      const timer = setTimeout(() => {
        this.#waiting.delete(waiting);
        refuse();
      }, this.#limits.waitMs);
    });
  }

  #startNext(): void {
    let next: Waiting | undefined;
    for (const waiting of this.#waiting)
      if (this.#hasSlot(waiting.owner) && (!next || this.#isBehind(waiting.owner, next.owner))) next = waiting;
    if (!next) return;
    this.#waiting.delete(next);
    next.start();
    this.#startNext();
  }

  /** Whether its account, or else the owner itself, has fewer reads running. */
  #isBehind(owner: Owner, other: Owner): boolean {
    const running = this.#running;
    const byAccount = running.usedByGroup(owner) - running.usedByGroup(other);
    return (byAccount || running.usedBy(owner) - running.usedBy(other)) < 0;
  }
}
