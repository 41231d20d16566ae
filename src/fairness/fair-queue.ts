// A queue that serves its owners in turn, one item each, and each owner's items in order: a long queue of one owner
// delays another by at most one item. With one owner it is an ordinary queue. Items may have weights, which limit how
// many are taken.
import type { Owner } from "./owners.ts";

type Lane<T> = { readonly owner: Owner; items: T[]; head: number };

export class FairQueue<T> {
  /** Ordered by turn: a Map iterates in insertion order. */
  readonly #lanes = new Map<string, Lane<T>>();
  readonly #weightOf: (item: T) => number;
  #length = 0;

  constructor(weightOf: (item: T) => number = () => 1) {
    this.#weightOf = weightOf;
  }

  get length(): number {
    return this.#length;
  }

  push(owner: Owner, item: T): void {
    this.#length++;
    const lane = this.#lanes.get(owner.id);
    if (lane) lane.items.push(item);
    else this.#lanes.set(owner.id, { owner, items: [item], head: 0 });
  }

  /** The next item; its owner's turn comes again after every other owner's. */
  shift(): T | undefined {
    const [lane] = this.#lanes.values();
    if (!lane) return undefined;
    const item = this.#take(lane);
    this.#endTurn(lane);
    return item;
  }

  /** Moves the owner to the end of the rotation; a no-op with one owner. */
  #endTurn(lane: Lane<T>): void {
    if (this.#lanes.size > 1 && this.#lanes.delete(lane.owner.id)) this.#lanes.set(lane.owner.id, lane);
  }

  /**
   * Items chosen in turn until their weights reach `max`, and `perAccount` for all cells of an account and for any
   * other owner; each owner's are adjacent and in order. One item never weighs more than `perAccount`, so that it
   * leaves room for those of others.
   */
  take(max: number, perAccount = max): T[] {
    const [first] = this.#lanes.values();
    if (first && this.#lanes.size === 1) return this.#takeMany(first, Math.min(max, perAccount));
    const taken = new Map<Lane<T>, T[]>();
    const weights = new Map<string, number>();
    let [weight, full] = [0, 0];
    while (weight < max && full < this.#lanes.size) {
      const [lane] = this.#lanes.values() as unknown as [Lane<T>];
      const { group } = lane.owner;
      const ofGroup = weights.get(group) ?? 0;
      if (ofGroup >= perAccount) {
        full++;
        this.#endTurn(lane);
        continue;
      }
      const item = this.shift() as T;
      const itsWeight = Math.min(perAccount, this.#weightOf(item));
      weights.set(group, ofGroup + itsWeight);
      weight += itsWeight;
      full = 0;
      const items = taken.get(lane);
      if (items) items.push(item);
      else taken.set(lane, [item]);
    }
    return [...taken.values()].flat();
  }

  /** Removes the owner's oldest item out of turn, because it is displaced. */
  shiftOf({ id }: Owner): T | undefined {
    const lane = this.#lanes.get(id);
    return lane && this.#take(lane);
  }

  #takeMany(lane: Lane<T>, max: number): T[] {
    let end = lane.head;
    for (let weight = 0; weight < max && end < lane.items.length; end++) weight += this.#weightOf(lane.items[end] as T);
    const taken = lane.items.slice(lane.head, end);
    this.#length -= taken.length;
    lane.items = lane.items.slice(lane.head + taken.length);
    lane.head = 0;
    if (lane.items.length === 0) this.#lanes.delete(lane.owner.id);
    return taken;
  }

  #take(lane: Lane<T>): T {
    const item = lane.items[lane.head] as T;
    lane.items[lane.head++] = undefined as T; // lets the garbage collector free it
    this.#length--;
    if (lane.head === lane.items.length) this.#lanes.delete(lane.owner.id);
    else if (lane.head >= 1_024 && lane.head * 2 >= lane.items.length) {
      lane.items = lane.items.slice(lane.head);
      lane.head = 0;
    }
    return item;
  }
}
