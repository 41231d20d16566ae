// Large responses, from the moment they are built until their clients have taken them. An owner builds two at a time,
// and none while its clients leave its share of bytes unread; it waits a moment for them to read and is then refused.
import { fail } from "../kernel/errors.ts";
import type { MaybePromise } from "../kernel/maybe-promise.ts";
import { displaceFor } from "./displacement.ts";
import { Ledger } from "./ledger.ts";
import type { Owner } from "./owners.ts";
import type { Release } from "./reservations.ts";

/** Large responses that one owner may build at the same time. */
const BUILDING_MAX = 2;
const WAIT_MS = 2_000;

type Charge = { readonly owner: Owner; readonly sent: object; readonly bytes: number; readonly cuts: Set<() => void> };

export class LargeResponses {
  readonly #ledger: Ledger;
  readonly #waitMs: number;
  readonly #building = new Ledger({ bound: Number.POSITIVE_INFINITY, share: BUILDING_MAX });
  /** Callbacks that resume waiting builds, by owner, oldest first. */
  readonly #waiting = new Map<string, Set<() => void>>();
  /** Keyed by the object being sent: a page that many clients receive is in memory once, and is charged once. */
  readonly #charges = new Map<object, Charge>();

  constructor(ledger: Ledger, waitMs = WAIT_MS) {
    this.#ledger = ledger;
    this.#waitMs = waitMs;
  }

  /** Call before building a large response. Call the returned function once the response has been charged. */
  beginBuilding(owner: Owner): MaybePromise<Release> {
    if (this.#mayBuild(owner)) return this.#start(owner);
    const waiting = this.#waiting.get(owner.id) ?? new Set();
    this.#waiting.set(owner.id, waiting);
    return new Promise((resolve, reject) => {
      const end = (settle: () => void) => (): void => {
        clearTimeout(timer);
        waiting.delete(resume);
        if (waiting.size === 0 && this.#waiting.get(owner.id) === waiting) this.#waiting.delete(owner.id);
        settle();
      };
      const resume = end(() => resolve(this.#start(owner)));
      const refuse = end(() => {
        this.#ledger.countRefusal(owner);
        reject(fail("share_full"));
      });
      const timer = setTimeout(refuse, this.#waitMs);
      waiting.add(resume);
    });
  }

  /** Does work that counts as building a large response. */
  async whileBuilding<T>(owner: Owner, work: () => Promise<T>): Promise<T> {
    const building = this.beginBuilding(owner);
    const endBuilding = building instanceof Promise ? await building : building;
    return work().finally(endBuilding);
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

  #mayBuild(owner: Owner): boolean {
    return this.#building.withinShare(owner) && this.#ledger.withinShare(owner);
  }

  #start(owner: Owner): Release {
    this.#building.take(owner);
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      this.#building.release(owner);
      this.#resume(owner);
    };
  }

  #resume(owner: Owner): void {
    for (const resume of this.#waiting.get(owner.id) ?? []) {
      if (!this.#mayBuild(owner)) return;
      resume();
    }
  }

  #release(charge: Charge): void {
    const { owner, sent, bytes } = charge;
    if (this.#charges.get(sent) !== charge) return; // it was cut
    this.#charges.delete(sent);
    this.#ledger.release(owner, bytes);
    this.#resume(owner);
  }
}
