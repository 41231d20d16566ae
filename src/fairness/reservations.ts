// Room that is reserved before it is filled: an owner waits while its share is taken, and at the bound the largest owner's
// oldest reservation is cut to make room for a smaller owner's.
import type { MaybePromise } from "../kernel/maybe-promise.ts";
import type { Ledger } from "./ledger.ts";
import type { Owner } from "./owners.ts";

/** May be called more than once. */
export type Release = () => void;

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

  /** Waits until the owner has room; one that holds nothing gets any amount. `cut` must end what the room is for. */
  reserve(owner: Owner, amount: number, cut: () => void): MaybePromise<Release> {
    const reservation = { owner, amount, cut };
    const waiting = this.#waiting.get(owner.id);
    if (!waiting && this.#fits(reservation)) return this.#hold(reservation);
    this.#ledger.countRefusal(owner);
    return new Promise((resume) => {
      if (waiting) waiting.push({ ...reservation, resume });
      else this.#waiting.set(owner.id, [{ ...reservation, resume }]);
    });
  }

  #fits({ owner, amount }: Reservation): boolean {
    const ledger = this.#ledger;
    if (ledger.usedBy(owner) > 0 && !ledger.withinShare(owner, amount)) return false;
    while (ledger.used > 0 && ledger.used + amount > ledger.limits.bound) {
      const victim = ledger.victimFor(owner, 0);
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
