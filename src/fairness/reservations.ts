// Room that is reserved before it is filled: an owner waits while its share is taken, and at the bound the largest
// owner's oldest reservation is cut to make room for a smaller owner's. What waits is bounded too.
import { fail, type Failure } from "../kernel/errors.ts";
import { FairSet } from "./fair-set.ts";
import { Ledger } from "./ledger.ts";
import type { Owner } from "./owners.ts";

/** Waiting requests use memory too, although less: for a body, the bytes that arrived with its headers. */
const WAITING = { bound: 256, share: 32 };

/** May be called more than once. */
export type Release = () => void;

/** Registers a listener for the disconnect of the waiting client; returns a function that unregisters it. */
export type OnGone = (drop: () => void) => () => void;

type Reservation = { readonly owner: Owner; readonly amount: number; readonly cut: () => void };
type Waiting = Reservation & {
  readonly resume: (release: Release) => void;
  readonly refuse: (failure: Failure) => void;
};

export class Reservations {
  readonly #ledger: Ledger;
  /** Oldest first. */
  readonly #held: FairSet<Reservation>;
  readonly #waitingOf = new Ledger(WAITING);
  /** Oldest first. */
  readonly #waiting = new FairSet<Waiting>(this.#waitingOf, ({ owner, refuse }) => refuse(this.#refusal(owner)));

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
    this.#held = new FairSet(ledger, ({ cut }) => cut(), { amountOf: ({ amount }) => amount });
  }

  /** Returns undefined if the owner would have to wait. `cut` must abort the work that the room is for. */
  tryReserve(owner: Owner, amount: number, cut: () => void): Release | undefined {
    const release = this.#tryHold({ owner, amount, cut });
    if (!release) this.#ledger.countRefusal(owner);
    return release;
  }

  /**
   * Waits until the owner has room; one that holds nothing gets any amount. Rejects if the client disconnects first, or
   * if too many wait.
   */
  reserve(owner: Owner, amount: number, cut: () => void, onGone: OnGone): Release | Promise<Release> {
    const now = this.#tryHold({ owner, amount, cut });
    if (now) return now;
    return new Promise((resolve, reject) => {
      const resume = (release: Release): void => {
        unregister();
        resolve(release);
      };
      const refuse = (failure: Failure): void => {
        unregister();
        reject(failure);
      };
      const waiter: Waiting = { owner, amount, cut, resume, refuse };
      if (!this.#waiting.add(owner, waiter)) return reject(this.#refusal(owner));
      const unregister = onGone(() => {
        if (!this.#waiting.delete(waiter)) return;
        reject(fail("malformed_request"));
        this.#resume();
      });
    });
  }

  #refusal(owner: Owner): Failure {
    this.#ledger.countRefusal(owner);
    return noRoom();
  }

  #tryHold(reservation: Reservation): Release | undefined {
    const isFirst = this.#waitingOf.usedBy(reservation.owner) === 0;
    return isFirst && this.#fits(reservation) ? this.#hold(reservation) : undefined;
  }

  #fits({ owner, amount }: Reservation): boolean {
    const isFirst = this.#ledger.usedBy(owner) === 0;
    return (isFirst || this.#ledger.withinShare(owner, amount)) && this.#held.makeRoom(owner, amount);
  }

  #hold(reservation: Reservation): Release {
    this.#held.insert(reservation.owner, reservation);
    return () => {
      if (this.#held.delete(reservation)) this.#resume();
    };
  }

  /** Each owner's waiting reservations continue in order. */
  #resume(): void {
    const blocked = new Set<string>();
    for (const next of this.#waiting) {
      if (blocked.has(next.owner.id)) continue;
      if (!this.#fits(next)) blocked.add(next.owner.id);
      else if (this.#waiting.delete(next)) next.resume(this.#hold(next));
    }
  }
}

/** Closes the connection instead of reading what there is no room for. */
export function noRoom(): Failure {
  return fail("share_full", { closes: true });
}
