// How much of one shared resource each owner holds, and who must give way at the bound (max-min fairness): below the
// bound only an owner's own share limits it; at the bound an owner that holds less than the largest takes a place from
// the largest.
import { MaxHeap, OUTSIDE, type HeapEntry } from "./max-heap.ts";
import type { Owner, OwnerKind } from "./owners.ts";
import { RecentRefusals } from "./recent-refusals.ts";

export type Limits = {
  /** Maximum for all owners together. */
  readonly bound: number;
  /** Maximum for one owner; Infinity if the table states none. */
  readonly share: number;
  /** Whether the share is of each owner (the default) or of all cells of an account together. */
  readonly shareOf?: "owner" | "account";
};

/** What an owner holds, and how often it was refused in the last five minutes. */
type Holding = { owner: Owner; used: number; refused: number };

type Holder = HeapEntry & { readonly owner: Owner; readonly group: Group };
type Group = HeapEntry & { readonly id: string; readonly holders: MaxHeap<Holder>; members: number };

export class Ledger {
  readonly limits: Limits;
  /** Refusals by kind of owner, for /metrics. */
  readonly refused = new Map<OwnerKind, number>();
  readonly #recent = new RecentRefusals();
  readonly #holders = new Map<string, Holder>();
  readonly #groups = new Map<string, Group>();
  readonly #largest = new MaxHeap<Group>();
  readonly #sharesAreOfAccounts: boolean;
  #used = 0;

  constructor(limits: Limits) {
    this.limits = limits;
    this.#sharesAreOfAccounts = limits.shareOf === "account";
  }

  /** Total held by all owners. */
  get used(): number {
    return this.#used;
  }

  usedBy({ id }: Owner): number {
    return this.#holders.get(id)?.used ?? 0;
  }

  /** Total held by all owners of this owner's group. */
  usedByGroup({ group }: Owner): number {
    return this.#groups.get(group)?.used ?? 0;
  }

  /** Every owner that holds some or was refused in the last minutes, largest first. */
  owners(): Holding[] {
    const refused = this.#recent.list();
    const holdings = Array.from(this.#holders.values(), ({ owner, used }): Holding => {
      return { owner, used, refused: refused.get(owner.id)?.count ?? 0 };
    });
    for (const { owner, count } of refused.values())
      if (!this.#holders.has(owner.id)) holdings.push({ owner, used: 0, refused: count });
    return holdings.toSorted((a, b) => b.used - a.used || b.refused - a.refused);
  }

  /** The largest holding as a part of its share, or of the bound where there is no share. */
  get largestPart(): number {
    const { bound, share } = this.limits;
    const whole = Math.min(bound, share);
    let most = 0;
    const holdings = this.#sharesAreOfAccounts ? this.#groups : this.#holders;
    for (const { used } of holdings.values()) most = Math.max(most, used);
    return Number.isFinite(whole) ? most / whole : 0;
  }

  /** Whether the owner may take this much without displacing anything. */
  hasRoom(owner: Owner, amount = 1): boolean {
    return this.#used + amount <= this.limits.bound && this.withinShare(owner, amount);
  }

  /**
   * Whether the owner, or all owners together, exceed their limit: for callers that take first and make room
   * afterwards.
   */
  isOver(owner: Owner): boolean {
    return !this.hasRoom(owner, 0);
  }

  withinShare(owner: Owner, amount = 1): boolean {
    const holding = this.#sharesAreOfAccounts ? this.#groups.get(owner.group) : this.#holders.get(owner.id);
    return (holding?.used ?? 0) + amount <= this.limits.share;
  }

  /** The owner that must give up a place for this one; undefined where this one must be refused. */
  victimFor(owner: Owner, amount = 1): Owner | undefined {
    const largest = this.#largest.top;
    const victim = largest?.holders.top;
    const group = this.#groups.get(owner.group);
    if (!victim) return undefined;
    if (!this.withinShare(owner, amount)) return this.#sharesAreOfAccounts ? firstToGive(group, owner) : undefined;
    if (group !== largest && (group?.used ?? 0) + amount <= largest.used) return victim.owner;
    const own = group?.holders.top;
    if (!own) return undefined;
    // An account's test cells give way to its live ones, whichever account is the largest.
    if (own.displacedFirst !== owner.displacedFirst) return own.displacedFirst ? own.owner : undefined;
    return group === largest && this.usedBy(owner) + amount <= own.used ? own.owner : undefined;
  }

  /** Takes without checking: for what already exists, or after the caller has checked. */
  take(owner: Owner, amount = 1): void {
    this.#change(this.#holders.get(owner.id) ?? this.#admit(owner), amount);
  }

  release({ id }: Owner, amount = 1): void {
    const holder = this.#holders.get(id);
    if (holder) this.#change(holder, -Math.min(amount, holder.used));
  }

  /** Excludes an owner that has nothing to give up from being a victim, until `include`. */
  exclude({ id }: Owner): void {
    const holder = this.#holders.get(id);
    if (holder) this.#removeVictim(holder);
  }

  include({ id }: Owner): void {
    const holder = this.#holders.get(id);
    if (holder?.place === OUTSIDE) this.#addVictim(holder);
  }

  countRefusal(owner: Owner): void {
    this.refused.set(owner.kind, (this.refused.get(owner.kind) ?? 0) + 1);
    this.#recent.count(owner);
  }

  #admit(owner: Owner): Holder {
    let group = this.#groups.get(owner.group);
    if (!group) {
      group = { id: owner.group, used: 0, displacedFirst: false, place: OUTSIDE, holders: new MaxHeap(), members: 0 };
      this.#groups.set(owner.group, group);
    }
    const holder = { owner, group, used: 0, displacedFirst: owner.displacedFirst, place: OUTSIDE };
    this.#holders.set(owner.id, holder);
    this.#addVictim(holder);
    group.members++;
    return holder;
  }

  #addVictim(holder: Holder): void {
    const { group } = holder;
    group.holders.add(holder);
    if (group.place === OUTSIDE) this.#largest.add(group);
  }

  #removeVictim(holder: Holder): void {
    const { group } = holder;
    group.holders.delete(holder);
    if (!group.holders.top) this.#largest.delete(group);
  }

  #change(holder: Holder, by: number): void {
    const { group, owner } = holder;
    this.#used += by;
    holder.used += by;
    group.used += by;
    if (holder.used > 0) group.holders.moved(holder);
    else {
      this.#removeVictim(holder);
      this.#holders.delete(owner.id);
      if (--group.members === 0) this.#groups.delete(group.id);
    }
    this.#largest.moved(group);
  }
}

/** The cell that gives way when its account is at its share: the largest test cell, else the largest live one. */
function firstToGive(account: Group | undefined, { displacedFirst }: Owner): Owner | undefined {
  const first = account?.holders.top;
  return first && (first.displacedFirst || !displacedFirst) ? first.owner : undefined;
}
