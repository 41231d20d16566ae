// Room that is reserved before it is filled: an owner waits while its share is taken, and at the bound the largest owner's
// oldest reservation is cut to make room for a smaller owner's.
import { fail } from "../kernel/errors.ts";
import type { MaybePromise } from "../kernel/maybe-promise.ts";
import type { Ledger } from "./ledger.ts";
import type { Owner } from "./owners.ts";

/** May be called more than once. */
export type Release = () => void;

/** Registers what to call when the waiting client has disconnected; returns what unregisters it. */
export type OnGone = (drop: () => void) => () => void;

type Reservation = { readonly owner: Owner; readonly amount: number; readonly cut: () => void };
type Waiting = Reservation & { readonly resume: (release: Release) => void };

export class Reservations {
  readonly #ledger: Ledger;
  /** Oldest first. */
  readonly #held = new Set<Reservation>();
  readonly #waiting = new Map<string, Waiting[]>();

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
  }

  /** Undefined where the owner would have to wait. `cut` must end what the room is for. */
  tryReserve(owner: Owner, amount: number, cut: () => void): Release | undefined {
    const reservation = { owner, amount, cut };
    if (!this.#waiting.has(owner.id) && this.#fits(reservation)) return this.#hold(reservation);
    this.#ledger.countRefusal(owner);
    return undefined;
  }

  /** Waits until the owner has room; one that holds nothing gets any amount. Rejects if the client goes meanwhile. */
  reserve(owner: Owner, amount: number, cut: () => void, onGone: OnGone = () => () => {}): MaybePromise<Release> {
    const now = this.tryReserve(owner, amount, cut);
    if (now) return now;
    return new Promise((resolve, reject) => {
      const waiting = this.#waiting.get(owner.id) ?? [];
      this.#waiting.set(owner.id, waiting);
      const resume = (release: Release): void => {
        stay();
        resolve(release);
      };
      const waiter: Waiting = { owner, amount, cut, resume };
      waiting.push(waiter);
      const stay = onGone(() => {
        const at = waiting.indexOf(waiter);
        if (at < 0) return;
        waiting.splice(at, 1);
        reject(fail("malformed_request"));
        this.#resume();
      });
    });
  }

  #fits({ owner, amount }: Reservation): boolean {
    const ledger = this.#ledger;
    if (ledger.usedBy(owner) > 0 && !ledger.withinShare(owner, amount)) return false;
    while (ledger.used > 0 && ledger.used + amount > ledger.limits.bound) {
      const victim = ledger.victimFor(owner, amount);
      const oldest = victim && [...this.#held].find((held) => held.owner.id === victim.id);
      if (!victim || !oldest) return false;
      ledger.countRefusal(victim);
      this.#release(oldest);
      oldest.cut();
    }
    return true;
  }

  #hold(reservation: Reservation): Release {
    this.#held.add(reservation);
    this.#ledger.take(reservation.owner, reservation.amount);
    return () => {
      if (this.#release(reservation)) this.#resume();
    };
  }

  #release(reservation: Reservation): boolean {
    if (!this.#held.delete(reservation)) return false;
    this.#ledger.release(reservation.owner, reservation.amount);
    return true;
  }

  /** Each owner's waiting reservations continue in order. */
  #resume(): void {
    for (const [id, waiting] of this.#waiting) {
      while (waiting[0] && this.#fits(waiting[0])) {
        const next = waiting.shift() as Waiting;
        next.resume(this.#hold(next));
      }
      if (waiting.length === 0) this.#waiting.delete(id);
    }
  }
}
