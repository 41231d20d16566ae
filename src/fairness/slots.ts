// Slots for expensive work: a few per owner run at the same time, and a few in total. Further work waits a moment for a
// slot and is then refused.
import { fail } from "../kernel/errors.ts";
import { Ledger } from "./ledger.ts";
import type { Owner } from "./owners.ts";
import type { Release } from "./reservations.ts";

const WAIT_MS = 2_000;
/** Bounds memory only: the two-second wait expires long before 1,000 can be served. */
const WAITING_MAX = 1_000;

export type SlotLimits = {
  /**
   * Maximum for all owners. An account gets a slot only while it has fewer than are free, so that two never take all.
   */
  readonly atOnce: number;
  readonly perOwner: number;
  readonly waitMs: number;
  /** Maximum of one owner's waiting work; further work is refused at once. */
  readonly waitingPerOwner: number;
  /** The failure of work that gets no slot. */
  readonly refusal: "unavailable" | "share_full";
};

/** Limits for reads in worker threads. */
export const THREAD_READS: SlotLimits = {
  atOnce: 8,
  perOwner: 2,
  waitMs: WAIT_MS,
  waitingPerOwner: WAITING_MAX,
  refusal: "unavailable",
};

/** Limits for reads of all nodes, or all keys, of a project. */
export const FLEET_READS: SlotLimits = {
  atOnce: Number.POSITIVE_INFINITY,
  perOwner: 2,
  waitMs: WAIT_MS,
  waitingPerOwner: WAITING_MAX,
  refusal: "share_full",
};

/** Limits for building large responses. */
export const LARGE_RESPONSES: SlotLimits = { ...FLEET_READS, waitingPerOwner: Number.POSITIVE_INFINITY };

/** Work for a customer of an owner, which counts for the owner's account too. */
type Guest = Owner & { readonly hostGroup: string };

/**
 * Each customer waits in a queue of its own. All customers of an account together have as many slots as one owner, and
 * they are slots of the account.
 */
export function guestOf(host: Owner, customer: string): Guest {
  return { ...host, id: `${host.id}/${customer}`, group: guestsOf(host.group), hostGroup: host.group };
}

const guestsOf = (group: string): string => `${group}/guests`;

type Waiting = { readonly owner: Owner; readonly start: () => void };

export class Slots {
  readonly #limits: SlotLimits;
  readonly #ledger: Ledger;
  readonly #mayStart: (owner: Owner) => boolean;
  readonly #running: Ledger;
  /** By owner, longest waiting first; the owner that was served last is the last one. */
  readonly #waiting = new Map<string, Set<Waiting>>();

  /** `ledger` counts refusals. If `mayStart` depends on something else, call `resume` when that changes. */
  constructor(limits: SlotLimits, ledger: Ledger, mayStart: (owner: Owner) => boolean = () => true) {
    this.#limits = limits;
    this.#ledger = ledger;
    this.#mayStart = mayStart;
    this.#running = new Ledger({ bound: limits.atOnce, share: limits.perOwner });
  }

  /** Runs the work as soon as there is a slot. After a wait it calls `recheck` first, which may throw. */
  async run<T>(owner: Owner, work: () => Promise<T>, recheck: () => Promise<void> = async () => {}): Promise<T> {
    const slot = this.acquire(owner);
    const release = await slot;
    try {
      if (slot instanceof Promise) await recheck();
      return await work();
    } finally {
      release();
    }
  }

  acquire(owner: Owner): Release | Promise<Release> {
    return this.#hasSlot(owner) ? this.#take(owner) : this.#wait(owner);
  }

  /** Starts what may start after this owner has released something. */
  resume(owner: Owner): void {
    // Without a global limit, only its own owner can use a released slot. Guests share the slots of their account.
    const isAlone = this.#limits.atOnce === Number.POSITIVE_INFINITY && !("hostGroup" in owner);
    for (;;) {
      const own = isAlone ? [this.#waiting.get(owner.id) ?? []] : undefined;
      let next: Waiting | undefined;
      for (const [first] of own ?? this.#waiting.values())
        if (first && this.#hasSlot(first.owner) && (!next || this.#isBehind(first.owner, next.owner))) next = first;
      if (!next) return;
      next.start();
    }
  }

  #hasSlot(owner: Owner): boolean {
    const running = this.#running;
    const isFree = running.withinShare(owner) && this.#usedByAccount(owner) < this.#limits.atOnce - running.used;
    const isGuest = "hostGroup" in owner;
    return isFree && (!isGuest || running.usedByGroup(owner) < this.#limits.perOwner) && this.#mayStart(owner);
  }

  #usedByAccount(owner: Owner | Guest): number {
    const group = "hostGroup" in owner ? owner.hostGroup : owner.group;
    return this.#running.usedByGroup({ group }) + this.#running.usedByGroup({ group: guestsOf(group) });
  }

  #take(owner: Owner): Release {
    this.#running.take(owner);
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      this.#running.release(owner);
      this.resume(owner);
    };
  }

  #wait(owner: Owner): Promise<Release> {
    const queue = this.#waiting.get(owner.id) ?? new Set();
    return new Promise((resolve, reject) => {
      const refuse = (): void => {
        this.#ledger.countRefusal(owner);
        reject(fail(this.#limits.refusal));
      };
      if (queue.size >= this.#limits.waitingPerOwner) return refuse();
      const leave = (): void => {
        clearTimeout(timer);
        queue.delete(waiting);
        if (queue.size === 0) this.#waiting.delete(owner.id);
      };
      const start = (): void => {
        this.#waiting.delete(owner.id);
        this.#waiting.set(owner.id, queue);
        leave();
        resolve(this.#take(owner));
      };
      const waiting: Waiting = { owner, start };
      const timer = setTimeout(() => {
        leave();
        refuse();
      }, this.#limits.waitMs);
      this.#waiting.set(owner.id, queue.add(waiting));
    });
  }

  /** Whether its account, or else the owner itself, has less running. */
  #isBehind(owner: Owner, other: Owner): boolean {
    const running = this.#running;
    const byAccount = this.#usedByAccount(owner) - this.#usedByAccount(other);
    return (byAccount || running.usedBy(owner) - running.usedBy(other)) < 0;
  }
}
