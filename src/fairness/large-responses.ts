// Large responses, from the moment they are built until their clients have taken them. An owner builds two at a time,
// and none while its clients leave its share of bytes unread; it waits a moment for them to read and is then refused.
import type { MaybePromise } from "../kernel/maybe-promise.ts";
import { displaceFor } from "./displacement.ts";
import type { Ledger } from "./ledger.ts";
import type { Owner } from "./owners.ts";
import type { Release } from "./reservations.ts";
import { LARGE_RESPONSES, Slots } from "./slots.ts";

type Charge = { readonly owner: Owner; readonly sent: object; readonly bytes: number; readonly cuts: Set<() => void> };

export class LargeResponses {
  readonly #ledger: Ledger;
  readonly #building: Slots;
  /** Keyed by the object being sent: a page that many clients receive is in memory once, and is charged once. */
  readonly #charges = new Map<object, Charge>();

  constructor(ledger: Ledger, waitMs = LARGE_RESPONSES.waitMs) {
    this.#ledger = ledger;
    this.#building = new Slots({ ...LARGE_RESPONSES, waitMs }, ledger, (owner) => ledger.withinShare(owner));
  }

  /** Call before building a large response. Call the returned function once the response has been charged. */
  beginBuilding(owner: Owner): MaybePromise<Release> {
    return this.#building.acquire(owner);
  }

  /** Does work that counts as building a large response. */
  whileBuilding<T>(owner: Owner, work: () => Promise<T>): Promise<T> {
    return this.#building.run(owner, work);
  }

  /** Charges what is being sent to one client; `cut` ends that where the bytes must make room for another owner's. */
  charge(owner: Owner, sent: object, bytes: number, cut: () => void): Release {
    const charge = this.#charges.get(sent) ?? this.#take({ owner, sent, bytes, cuts: new Set() });
    const { cuts } = charge;
    cuts.add(cut);
    return () => {
      if (cuts.delete(cut) && cuts.size === 0) this.#release(charge);
    };
  }

  /** At the bound the largest owner's oldest responses are cut. */
  #take(charge: Charge): Charge {
    const { owner, sent, bytes } = charge;
    displaceFor(owner, bytes, this.#ledger, this.#charges, (oldest) => {
      this.#release(oldest);
      for (const cut of oldest.cuts) cut();
    });
    this.#charges.set(sent, charge);
    this.#ledger.take(owner, bytes);
    return charge;
  }

  #release(charge: Charge): void {
    const { owner, sent, bytes } = charge;
    if (this.#charges.get(sent) !== charge) return; // it was cut
    this.#charges.delete(sent);
    this.#ledger.release(owner, bytes);
    this.#building.resume(owner);
  }
}
