// The queue in front of password hashing, which takes a core for a moment and 64 MiB. Networks take turns, and every
// second turn goes to a person who has logged in from their network before: so a flood of logins, even with right
// passwords, delays them by a few hashes. It is no throttle: it limits how much runs and waits, not how often.
import { availableParallelism } from "node:os";
import { FairQueue } from "../../fairness/fair-queue.ts";
import type { Ledger } from "../../fairness/ledger.ts";
import { networkOwner, type Owner } from "../../fairness/owners.ts";
import { fail } from "../../kernel/errors.ts";

const AT_ONCE_MAX = 4;
const WAIT_MS = 10_000;

/** Who a password is hashed for. `known`: this person has logged in from this network lately. */
export type PasswordCaller = { readonly network: string; readonly known: boolean };

/** The caller of a request that has proved nothing about its sender. */
export function unknownCaller({ from }: { from?: { readonly network: string } | undefined }): PasswordCaller {
  return { network: from?.network ?? "", known: false };
}

type Waiting = { readonly start: () => void; readonly refuse: () => void };

export class PasswordQueue {
  readonly #waiting: Ledger;
  readonly #atOnce: number;
  readonly #known = new FairQueue<Waiting>();
  readonly #others = new FairQueue<Waiting>();
  #running = 0;
  /** Whether the last slot that was waited for went to a known caller. */
  #servedKnown = false;

  /** The ledger holds the places of those who wait, by network. */
  constructor(waiting: Ledger, atOnce = Math.min(AT_ONCE_MAX, Math.max(1, availableParallelism() - 1))) {
    this.#waiting = waiting;
    this.#atOnce = atOnce;
  }

  async run<T>(caller: PasswordCaller, task: () => Promise<T>): Promise<T> {
    if (this.#running < this.#atOnce) this.#running++;
    else await this.#wait(networkOwner(caller.network), caller.known ? this.#known : this.#others);
    try {
      return await task();
    } finally {
      this.#leave();
    }
  }

  /** Resolves with a slot. Rejects when the network has no place left, or after ten seconds. */
  #wait(owner: Owner, queue: FairQueue<Waiting>): Promise<void> {
    if (!this.#waiting.hasRoom(owner) && !this.#makeRoom(owner)) {
      this.#waiting.countRefusal(owner);
      throw fail("overloaded");
    }
    this.#waiting.take(owner);
    return new Promise((resolve, reject) => {
      const settle = (work: () => void) => () => {
        clearTimeout(timer);
        this.#waiting.release(owner);
        work();
      };
      const refuse = settle(() => reject(fail("overloaded")));
      // All wait equally long, so the one whose time is up is the oldest of its network.
      const timer = setTimeout(() => {
        this.#waiting.countRefusal(owner);
        queue.shiftOf(owner)?.refuse();
      }, WAIT_MS);
      queue.push(owner, { start: settle(resolve), refuse });
    });
  }

  /** Refuses the oldest of the network with most waiting, if that is not the caller's own. */
  #makeRoom(owner: Owner): boolean {
    const victim = this.#waiting.victimFor(owner);
    const evicted = victim && (this.#others.shiftOf(victim) ?? this.#known.shiftOf(victim));
    if (!victim || !evicted) return false;
    this.#waiting.countRefusal(victim);
    evicted.refuse();
    return true;
  }

  /** Hands the slot to the next in turn, so that a new task cannot overtake it. */
  #leave(): void {
    const [first, second] = this.#servedKnown ? [this.#others, this.#known] : [this.#known, this.#others];
    const preferred = first.shift();
    const next = preferred ?? second.shift();
    if (preferred) this.#servedKnown = !this.#servedKnown;
    if (next) next.start();
    else this.#running--;
  }
}
