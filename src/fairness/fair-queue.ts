// A queue that serves its owners in turn, one item each, and each owner's items in order: a long queue of one owner
// delays another by at most one item. With one owner it is an ordinary queue. Items may have weights, which limit how
// many are taken. A ledger bounds it: the largest owner's oldest item is evicted to make room for a smaller owner's.
import { LinkedList, type ListNode } from "../kernel/linked-list.ts";
import type { Ledger } from "./ledger.ts";
import { OwnerRecords } from "./owner-records.ts";
import type { Owner } from "./owners.ts";

/** `turn`: its place in the rotation; undefined while it has no items. */
type OwnerQueue<T> = { readonly owner: Owner; items: T[]; head: number; turn: ListNode<OwnerQueue<T>> | undefined };

type Options<T> = {
  readonly weightOf?: (item: T) => number;
  /** Counts the items, and only those of this queue. Without one the caller bounds them. */
  readonly ledger?: Ledger;
  /** Called after an item was removed because it is evicted. */
  readonly evicted?: (item: T) => void;
};

export class FairQueue<T> {
  readonly #queues = new OwnerRecords<OwnerQueue<T>>();
  /** The queues that have items, the next one first. */
  readonly #turns = new LinkedList<OwnerQueue<T>>();
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
    const queue = this.#queues.get(owner.id) ?? this.#open(owner);
    queue.items.push(item);
    queue.turn ??= this.#turns.append(queue);
    return true;
  }

  #open(owner: Owner): OwnerQueue<T> {
    return this.#queues.add(owner.id, { owner, items: [], head: 0, turn: undefined });
  }

  #charge(ledger: Ledger, owner: Owner): boolean {
    if (!ledger.hasRoom(owner)) {
      const victim = ledger.victimFor(owner);
      const evicted = victim && this.#queues.get(victim.id);
      ledger.countRefusal(victim && evicted?.turn ? victim : owner);
      if (!evicted?.turn) return false;
      const item = this.#take(evicted);
      this.#evicted?.(item);
    }
    ledger.take(owner);
    return true;
  }

  /** The next item; its owner's turn comes again after every other owner's. */
  shift(): T | undefined {
    const queue = this.#turns.first;
    if (!queue) return undefined;
    const item = this.#take(queue);
    this.#endTurn(queue);
    return item;
  }

  /** Moves the owner to the end of the rotation; a no-op with one owner. */
  #endTurn(queue: OwnerQueue<T>): void {
    if (queue.turn && this.#turns.remove(queue.turn)) queue.turn = this.#turns.append(queue);
  }

  /**
   * Items chosen in turn until their weights reach `max`, and `perAccount` for all cells of an account and for any
   * other owner; each owner's are adjacent and in order. One item never weighs more than `perAccount`, so that it
   * leaves room for those of others.
   */
  take(max: number, perAccount = max): T[] {
    const { first } = this.#turns;
    if (first && this.#turns.size === 1) return this.#takeMany(first, Math.min(max, perAccount));
    const taken = new Map<OwnerQueue<T>, T[]>();
    const weights = new Map<string, number>();
    let [weight, full] = [0, 0];
    while (weight < max && full < this.#turns.size) {
      const queue = this.#turns.first as OwnerQueue<T>;
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
    return queue?.turn && this.#take(queue);
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
    this.#endIfEmpty(queue);
    return taken;
  }

  #take(queue: OwnerQueue<T>): T {
    const item = queue.items[queue.head] as T;
    queue.items[queue.head++] = undefined as T; // lets the garbage collector free it
    this.#length--;
    this.#ledger?.release(queue.owner);
    if (!this.#endIfEmpty(queue) && queue.head >= 1_024 && queue.head * 2 >= queue.items.length) {
      queue.items = queue.items.slice(queue.head);
      queue.head = 0;
    }
    return item;
  }

  #endIfEmpty(queue: OwnerQueue<T>): boolean {
    if (queue.head < queue.items.length) return false;
    if (queue.turn) this.#turns.remove(queue.turn);
    queue.turn = undefined;
    queue.items = [];
    queue.head = 0;
    this.#queues.retire(queue.owner.id);
    return true;
  }
}
