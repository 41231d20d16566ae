// Items that owners hold at the same time, oldest first, within the bounds of a ledger. At the bound the largest
// owner's oldest item is evicted to make room for a smaller owner's.
import { LinkedList, type ListNode } from "../kernel/linked-list.ts";
import type { Ledger } from "./ledger.ts";
import { OwnerRecords } from "./owner-records.ts";
import type { Owner } from "./owners.ts";

const LOOKED_AT_MAX = 100;

type Rules<T> = {
  /** A spared item is evicted last. */
  readonly isSpared?: (item: T) => boolean;
  /** Whether the item is pinned. If so, `end` must be called when it may be evicted again. */
  readonly isHeld?: (item: T, end: () => void) => boolean;
  /** How much of the bounds an item takes; 1 by default. */
  readonly amountOf?: (item: T) => number;
  /** The largest owner evicts nothing of others; it evicts an item of its own that is not spared. */
  readonly replacesOwn?: (owner: Owner) => boolean;
};

/** Where an item is; `evictable` is undefined while it is held. */
type Place<T> = { readonly owner: Owner; readonly node: ListNode<T>; evictable: ListNode<T> | undefined };

export class FairSet<T extends object> {
  readonly #ledger: Ledger;
  readonly #evict: (item: T) => void;
  readonly #rules: Rules<T>;
  /** Oldest first. */
  readonly #items = new LinkedList<T>();
  readonly #places = new WeakMap<T, Place<T>>();
  /** Evictable items by owner, oldest first. */
  readonly #byOwner = new OwnerRecords<LinkedList<T>>();

  /**
   * `ledger`: only of this set. `evict` is called after an item was removed, and must end what it represents.
   */
  constructor(ledger: Ledger, evict: (item: T) => void, rules: Rules<T> = {}) {
    this.#rules = rules;
    this.#ledger = ledger;
    this.#evict = evict;
  }

  get size(): number {
    return this.#items.size;
  }

  [Symbol.iterator](): Iterator<T> {
    return this.#items[Symbol.iterator]();
  }

  /** Returns false if the owner must be refused. Adding an item twice changes nothing. */
  add(owner: Owner, item: T): boolean {
    if (this.#places.has(item)) return true;
    const amount = this.#amountOf(item);
    for (let freed = 0; freed < amount && !this.#ledger.hasRoom(owner, amount); ) {
      const more = this.#evictFor(owner, amount);
      if (more === undefined) {
        this.#ledger.countRefusal(owner);
        return false;
      }
      freed += more;
    }
    this.insert(owner, item);
    return true;
  }

  /** Evicts items of larger owners until the amount fits within the bound of all. Returns false if it cannot. */
  makeRoom(owner: Owner, amount: number): boolean {
    const ledger = this.#ledger;
    while (ledger.used > 0 && ledger.used + amount > ledger.limits.bound)
      if (this.#evictFor(owner, amount) === undefined) return false;
    return true;
  }

  #amountOf(item: T): number {
    return this.#rules.amountOf?.(item) ?? 1;
  }

  /** Charges the item to another owner, as that owner's newest. */
  move(item: T, owner: Owner): void {
    const before = this.#places.get(item);
    if (!before || before.owner.id === owner.id) return;
    this.delete(item);
    this.insert(owner, item);
  }

  /** Adds an item whether there is room or not. */
  insert(owner: Owner, item: T): void {
    this.#ledger.take(owner, this.#amountOf(item));
    const place: Place<T> = { owner, node: this.#items.append(item), evictable: undefined };
    this.#places.set(item, place);
    this.#makeEvictable(place);
  }

  #makeEvictable(place: Place<T>): void {
    const { owner, node } = place;
    const items = this.#byOwner.get(owner.id) ?? this.#byOwner.add(owner.id, new LinkedList());
    place.evictable ??= items.append(node.item);
    if (items.size === 1) this.#ledger.include(owner);
  }

  #makeHeld(place: Place<T>): void {
    const { owner, evictable } = place;
    place.evictable = undefined;
    const items = this.#byOwner.get(owner.id);
    if (!evictable || !items?.remove(evictable) || items.size > 0) return;
    this.#byOwner.retire(owner.id);
    this.#ledger.exclude(owner);
  }

  /** Marks the item as its owner's most recently used. */
  touch(item: T): void {
    const place = this.#places.get(item);
    const items = place?.evictable && this.#byOwner.get(place.owner.id);
    if (items?.remove(place?.evictable as ListNode<T>)) (place as Place<T>).evictable = items.append(item);
  }

  /** Keeps an item from being evicted; it still counts. */
  hold(item: T): void {
    const place = this.#places.get(item);
    if (place) this.#makeHeld(place);
  }

  /** Makes a held item evictable again, as its owner's newest. */
  unhold(item: T): void {
    const place = this.#places.get(item);
    if (place) this.#makeEvictable(place);
  }

  /** Returns false if it was already removed or evicted. */
  delete(item: T): boolean {
    const place = this.#places.get(item);
    if (!place) return false;
    this.#places.delete(item);
    this.#items.remove(place.node);
    this.#makeHeld(place);
    this.#ledger.release(place.owner, this.#amountOf(item));
    return true;
  }

  /**
   * Examines only a few of the oldest items, so that a long list of spared ones does not slow down every insertion.
   * Held items leave the list, so each is examined once.
   */
  #firstToGo(items: Iterable<T>, sparesAll: boolean): T | undefined {
    const { isSpared, isHeld } = this.#rules;
    let [seen, spared] = [0, undefined as T | undefined];
    for (const item of items) {
      if (isHeld?.(item, () => this.unhold(item))) {
        this.hold(item);
        continue;
      }
      if (!isSpared?.(item)) return item;
      spared ??= item;
      if (++seen === LOOKED_AT_MAX) break;
    }
    return sparesAll ? undefined : spared;
  }

  /** Evicts one item. Returns how much room that makes; undefined if nothing can be evicted. */
  #evictFor(owner: Owner, amount: number): number | undefined {
    for (;;) {
      const other = this.#ledger.victimFor(owner, amount);
      const victim = other ?? (this.#rules.replacesOwn?.(owner) ? owner : undefined);
      const items = victim && this.#byOwner.get(victim.id);
      if (!victim || !items?.size) return undefined;
      const oldest = this.#firstToGo(items, !other);
      if (oldest !== undefined) {
        this.#ledger.countRefusal(victim);
        this.delete(oldest);
        this.#evict(oldest);
        return this.#amountOf(oldest);
      }
      if (!other) return undefined;
      // Everything of this owner is held: the next-largest is tried.
    }
  }
}
