// A queue that serves its owners in turn, one item each, and each owner's items in order: a long queue of one owner
// delays another by at most one item. With one owner it is an ordinary queue. Items may have weights, which limit how
// many are taken. A ledger bounds it: the largest owner's oldest item is evicted to make room for a smaller owner's.
import type { Ledger } from "./ledger.ts";
import type { Owner } from "./owners.ts";

type OwnerQueue<T> = { readonly owner: Owner; items: T[]; head: number };

type Options<T> = {
  readonly weightOf?: (item: T) => number;
  /** Counts the items, and only those of this queue. Without one the caller bounds them. */
  readonly ledger?: Ledger;
  /** Called after an item was removed because it is evicted. */
  readonly evicted?: (item: T) => void;
};

export class FairQueue<T> {
  /** Ordered by turn: a Map iterates in insertion order. */
  readonly #queues = new Map<string, OwnerQueue<T>>();
  readonly #weightOf: (item: T) => number;
  readonly #ledger: Ledger | undefined;
  readonly #evicted: ((item: T) => void) | undefined;
  #length = 0;

  constructor({ weightOf = () => 1, ledger, evicted }: Options<T> = {}) {
    this.#weightOf = weightOf;
    this.#ledger = ledger;
    this.#evicted = evicted;
  }

  get length(): number {
    return this.#length;
  }

  /** Returns false if the owner must be refused. */
  push(owner: Owner, item: T): boolean {
    if (this.#ledger && !this.#charge(this.#ledger, owner)) return false;
    this.#length++;
    const queue = this.#queues.get(owner.id);
    if (queue) queue.items.push(item);
    else this.#queues.set(owner.id, { owner, items: [item], head: 0 });
    return true;
  }

  #charge(ledger: Ledger, owner: Owner): boolean {
    if (!ledger.hasRoom(owner)) {
      const victim = ledger.victimFor(owner);
      const evicted = victim && this.#queues.get(victim.id);
      ledger.countRefusal(evicted ? victim : owner);
      if (!evicted) return false;
      this.#evicted?.(this.#take(evicted));
    }
    ledger.take(owner);
    return true;
  }

  /** The next item; its owner's turn comes again after every other owner's. */
  shift(): T | undefined {
    const [queue] = this.#queues.values();
    if (!queue) return undefined;
    const item = this.#take(queue);
    this.#endTurn(queue);
    return item;
  }

  /** Moves the owner to the end of the rotation; a no-op with one owner. */
  #endTurn(queue: OwnerQueue<T>): void {
    if (this.#queues.size > 1 && this.#queues.delete(queue.owner.id)) this.#queues.set(queue.owner.id, queue);
  }

  /**
   * Items chosen in turn until their weights reach `max`, and `perAccount` for all cells of an account and for any
   * other owner; each owner's are adjacent and in order. One item never weighs more than `perAccount`, so that it
   * leaves room for those of others.
   */
  take(max: number, perAccount = max): T[] {
    const [first] = this.#queues.values();
    if (first && this.#queues.size === 1) return this.#takeMany(first, Math.min(max, perAccount));
    const taken = new Map<OwnerQueue<T>, T[]>();
    const weights = new Map<string, number>();
    let [weight, full] = [0, 0];
    while (weight < max && full < this.#queues.size) {
      const [queue] = this.#queues.values() as unknown as [OwnerQueue<T>];
      const { group } = queue.owner;
      const ofGroup = weights.get(group) ?? 0;
      if (ofGroup >= perAccount) {
        full++;
        this.#endTurn(queue);
        continue;
      }
      const item = this.shift() as T;
      const itsWeight = Math.min(perAccount, this.#weightOf(item));
      weights.set(group, ofGroup + itsWeight);
      weight += itsWeight;
      full = 0;
      const items = taken.get(queue);
      if (items) items.push(item);
      else taken.set(queue, [item]);
    }
    return [...taken.values()].flat();
  }

  /** Removes the owner's oldest item out of turn. */
  shiftOf({ id }: Owner): T | undefined {
    const queue = this.#queues.get(id);
    return queue && this.#take(queue);
  }

  #takeMany(queue: OwnerQueue<T>, max: number): T[] {
    let end = queue.head;
    for (let weight = 0; weight < max && end < queue.items.length; end++)
      weight += this.#weightOf(queue.items[end] as T);
    const taken = queue.items.slice(queue.head, end);
    this.#length -= taken.length;
    this.#ledger?.release(queue.owner, taken.length);
    queue.items = queue.items.slice(queue.head + taken.length);
    queue.head = 0;
    if (queue.items.length === 0) this.#queues.delete(queue.owner.id);
    return taken;
  }

  #take(queue: OwnerQueue<T>): T {
    const item = queue.items[queue.head] as T;
    queue.items[queue.head++] = undefined as T; // lets the garbage collector free it
    this.#length--;
    this.#ledger?.release(queue.owner);
    if (queue.head === queue.items.length) this.#queues.delete(queue.owner.id);
    else if (queue.head >= 1_024 && queue.head * 2 >= queue.items.length) {
      queue.items = queue.items.slice(queue.head);
      queue.head = 0;
    }
    return item;
  }
}
