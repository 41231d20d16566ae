// Large responses, from the moment they are built until their clients have taken them. An owner builds two at a time,
// and none while its clients leave its share of bytes unread; it waits a moment for them to read and is then refused.
import { FairSet } from "./fair-set.ts";
import type { Ledger } from "./ledger.ts";
import type { Owner } from "./owners.ts";
import type { Release } from "./reservations.ts";
import { LARGE_RESPONSES, Slots } from "./slots.ts";

type UnsentBody = {
  readonly owner: Owner;
  readonly sent: object;
  readonly bytes: number;
  readonly cuts: Set<() => void>;
};

export class LargeResponses {
  readonly #unsent: FairSet<UnsentBody>;
  readonly #building: Slots;
  /** Keyed by the object being sent: a page that many clients receive is in memory once, and is charged once. */
  readonly #charges = new Map<object, UnsentBody>();

  constructor(ledger: Ledger, waitMs = LARGE_RESPONSES.waitMs) {
    this.#unsent = new FairSet(ledger, (charge) => this.#cut(charge), { amountOf: ({ bytes }) => bytes });
    this.#building = new Slots({ ...LARGE_RESPONSES, waitMs }, ledger, (owner) => ledger.withinShare(owner));
  }

  /** Call before building a large response. Call the returned function once the response has been charged. */
  beginBuilding(owner: Owner): Release | Promise<Release> {
    return this.#building.acquire(owner);
  }

  /** Does work that counts as building a large response. */
  whileBuilding<T>(owner: Owner, work: () => Promise<T>): Promise<T> {
    return this.#building.run(owner, work);
  }

  /** Charges what is being sent to one client; `cut` ends it when another owner's bytes need the room. */
  charge(owner: Owner, sent: object, bytes: number, cut: () => void): Release {
    const charge = this.#charges.get(sent) ?? this.#take({ owner, sent, bytes, cuts: new Set() });
    const { cuts } = charge;
    cuts.add(cut);
    return () => {
      if (cuts.delete(cut) && cuts.size === 0) this.#release(charge);
    };
  }

  /** At the bound the largest owner's oldest responses are cut. */
  #take(charge: UnsentBody): UnsentBody {
    this.#unsent.makeRoom(charge.owner, charge.bytes);
    this.#unsent.insert(charge.owner, charge);
    this.#charges.set(charge.sent, charge);
    return charge;
  }

  #cut(charge: UnsentBody): void {
    this.#end(charge);
    for (const cut of charge.cuts) cut();
  }

  #release(charge: UnsentBody): void {
    if (this.#unsent.delete(charge)) this.#end(charge);
  }

  #end({ sent, owner }: UnsentBody): void {
    this.#charges.delete(sent);
    this.#building.resume(owner);
  }
}
