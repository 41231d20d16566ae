// Room for request bodies that are being read, with and without a credential.
import type { Owner } from "./owners.ts";
import { Reservations, type OnGone, type Release } from "./reservations.ts";
import type { Shares } from "./shares.ts";

export class Bodies {
  readonly #authenticated: Reservations;
  readonly #anonymous: Reservations;

  constructor(shares: Shares) {
    this.#authenticated = new Reservations(shares.of("bodies"));
    this.#anonymous = new Reservations(shares.of("anonymous_bodies"));
  }

  /** Reserves room before a body of this size is read. The caller releases it once the response is sent. */
  reserve(owner: Owner, bytes: number, cut: () => void, onGone: OnGone): Release | Promise<Release> {
    return this.#of(owner).reserve(owner, bytes, cut, onGone);
  }

  /** Reserves without waiting, for a small body that is already partly buffered. */
  tryReserve(owner: Owner, bytes: number, cut: () => void): Release | undefined {
    return this.#of(owner).tryReserve(owner, bytes, cut);
  }

  #of({ kind }: Owner): Reservations {
    return kind === "network" ? this.#anonymous : this.#authenticated;
  }
}
