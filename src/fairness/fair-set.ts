// Items that owners hold at the same time, oldest first, within the bounds of a ledger. At the bound the largest owner's
// oldest item is displaced to make room for a smaller owner's.
import type { Ledger } from "./ledger.ts";
import type { Owner } from "./owners.ts";

export class FairSet<T> {
  readonly #ledger: Ledger;
  readonly #displace: (item: T) => void;
  readonly #items = new Map<T, Owner>();
  readonly #byOwner = new Map<string, Set<T>>();

  /** `displace` is called after the item was removed, and must end what it stands for. */
  constructor(ledger: Ledger, displace: (item: T) => void) {
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

  #makeRoom(owner: Owner): boolean {
    const victim = this.#ledger.victimFor(owner);
    const [oldest] = (victim && this.#byOwner.get(victim.id)) ?? [];
    if (!victim || oldest === undefined) return false;
    this.#ledger.countRefusal(victim);
    this.delete(oldest);
    this.#displace(oldest);
    return true;
  }
}
