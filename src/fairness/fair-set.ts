// Items that owners hold at the same time, oldest first, within the bounds of a ledger. At the bound the largest owner's
// oldest item is displaced to make room for a smaller owner's.
import type { Ledger } from "./ledger.ts";
import type { Owner } from "./owners.ts";

const LOOKED_AT_MAX = 100;

export class FairSet<T> {
  readonly #ledger: Ledger;
  readonly #displace: (item: T) => void;
  readonly #isSpared: (item: T) => boolean;
  readonly #items = new Map<T, Owner>();
  readonly #byOwner = new Map<string, Set<T>>();

  /** `displace` is called after the item was removed, and must end what the item represents. A spared item goes last. */
  constructor(ledger: Ledger, displace: (item: T) => void, isSpared: (item: T) => boolean = () => false) {
    this.#isSpared = isSpared;
    this.#ledger = ledger;
    this.#displace = displace;
  }

  get size(): number {
    return this.#items.size;
  }

  /** False where the owner must be refused. */
  add(owner: Owner, item: T): boolean {
    if (!this.#ledger.hasRoom(owner) && !this.#makeRoom(owner)) {
      this.#ledger.countRefusal(owner);
      return false;
    }
    this.#ledger.take(owner);
    this.#items.set(item, owner);
    const held = this.#byOwner.get(owner.id);
    if (held) held.add(item);
    else this.#byOwner.set(owner.id, new Set([item]));
    return true;
  }

  /** Makes an item its owner's youngest. */
  touch(item: T): void {
    const owner = this.#items.get(item);
    const held = owner && this.#byOwner.get(owner.id);
    if (held?.delete(item)) held.add(item);
  }

  /** False where it was removed or displaced before. */
  delete(item: T): boolean {
    const owner = this.#items.get(item);
    if (!owner) return false;
    this.#items.delete(item);
    const held = this.#byOwner.get(owner.id);
    held?.delete(item);
    if (held?.size === 0) this.#byOwner.delete(owner.id);
    this.#ledger.release(owner);
    return true;
  }

  /** Looks at the oldest only: a long list of spared items must not delay each newcomer. */
  #firstToGo(items: ReadonlySet<T>): T | undefined {
    let seen = 0;
    for (const item of items) {
      if (!this.#isSpared(item)) return item;
      if (++seen === LOOKED_AT_MAX) break;
    }
    return items.values().next().value;
  }

  #makeRoom(owner: Owner): boolean {
    const victim = this.#ledger.victimFor(owner);
    const items = victim && this.#byOwner.get(victim.id);
    const oldest = items && this.#firstToGo(items);
    if (!victim || oldest === undefined) return false;
    this.#ledger.countRefusal(victim);
    this.delete(oldest);
    this.#displace(oldest);
    return true;
  }
}
