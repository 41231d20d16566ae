// How much of one shared resource each owner holds, and who must give way at the bound (max-min fairness): below the
// bound only an owner's own share limits it; at the bound an owner that holds less than the largest takes a place from
// the largest.
import { MaxHeap, OUTSIDE, type HeapEntry } from "./max-heap.ts";
import { OwnerRecords } from "./owner-records.ts";
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
type OwnerUse = { owner: Owner; used: number; refused: number };

type Entry = HeapEntry & { readonly owner: Owner; group: Group };
type Group = HeapEntry & { readonly entries: MaxHeap<Entry> };

export class Ledger {
  readonly limits: Limits;
  /** Refusals by kind of owner, for /metrics. */
  readonly refused = new Map<OwnerKind, number>();
  readonly #recent = new RecentRefusals();
  readonly #entries = new OwnerRecords<Entry>();
  readonly #groups = new OwnerRecords<Group>();
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
    return this.#entries.get(id)?.used ?? 0;
  }

  /** Total held by all owners of this owner's group. */
  usedByGroup({ group }: Pick<Owner, "group">): number {
    return this.#groups.get(group)?.used ?? 0;
  }

  /** Every owner that holds some or was refused in the last minutes, largest first. */
  owners(): OwnerUse[] {
    const refused = this.#recent.list();
    const uses: OwnerUse[] = [];
    for (const { owner, used } of this.#entries.values())
      if (used > 0) uses.push({ owner, used, refused: refused.get(owner.id)?.count ?? 0 });
    for (const { owner, count } of refused.values())
      if (this.usedBy(owner) === 0) uses.push({ owner, used: 0, refused: count });
    return uses.toSorted((a, b) => b.used - a.used || b.refused - a.refused);
  }

  /** The largest owner's use as a fraction of its share, or of the bound if there is no share. */
  get largestPart(): number {
    const { bound, share } = this.limits;
    const whole = Math.min(bound, share);
    let most = 0;
    const uses = this.#sharesAreOfAccounts ? this.#groups : this.#entries;
    for (const { used } of uses.values()) most = Math.max(most, used);
    return Number.isFinite(whole) ? most / whole : 0;
  }

  /** Whether the owner may take this much without evicting anything. */
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
    const use = this.#sharesAreOfAccounts ? this.#groups.get(owner.group) : this.#entries.get(owner.id);
    return (use?.used ?? 0) + amount <= this.limits.share;
  }

  /** The owner that must give up a place for this one; undefined if this one must be refused. */
  victimFor(owner: Owner, amount = 1): Owner | undefined {
    const largest = this.#largest.top;
    const victim = largest?.entries.top;
    const group = this.#groups.get(owner.group);
    if (!victim) return undefined;
    if (!this.withinShare(owner, amount)) return this.#sharesAreOfAccounts ? firstToGive(group, owner) : undefined;
    if (group !== largest && (group?.used ?? 0) + amount <= largest.used) return victim.owner;
    const own = group?.entries.top;
    if (!own) return undefined;
    // An account's test cells give way to its live ones, whichever account is the largest.
    if (own.evictedFirst !== owner.evictedFirst) return own.evictedFirst ? own.owner : undefined;
    return group === largest && this.usedBy(owner) + amount <= own.used ? own.owner : undefined;
  }

  /** Takes without checking: for what already exists, or after the caller has checked. */
  take(owner: Owner, amount = 1): void {
    this.#change(this.#entries.get(owner.id) ?? this.#open(owner), amount);
  }

  release({ id }: Owner, amount = 1): void {
    const entry = this.#entries.get(id);
    if (entry) this.#change(entry, -Math.min(amount, entry.used));
  }

  /** Excludes an owner that has nothing to give up from being a victim, until `include`. */
  exclude({ id }: Owner): void {
    const entry = this.#entries.get(id);
    if (entry) this.#removeVictim(entry);
  }

  include({ id }: Owner): void {
    const entry = this.#entries.get(id);
    if (entry?.place === OUTSIDE && entry.used > 0) this.#addVictim(entry);
  }

  countRefusal(owner: Owner): void {
    this.refused.set(owner.kind, (this.refused.get(owner.kind) ?? 0) + 1);
    this.#recent.count(owner);
  }

  #open(owner: Owner): Entry {
    const { id, evictedFirst } = owner;
    return this.#entries.add(id, { owner, group: this.#groupOf(owner), used: 0, evictedFirst, place: OUTSIDE });
  }

  #groupOf({ group }: Owner): Group {
    const known = this.#groups.get(group);
    return known ?? this.#groups.add(group, { used: 0, evictedFirst: false, place: OUTSIDE, entries: new MaxHeap() });
  }

  #addVictim(entry: Entry): void {
    const { group } = entry;
    group.entries.add(entry);
    if (group.place === OUTSIDE) this.#largest.add(group);
  }

  #removeVictim(entry: Entry): void {
    const { group } = entry;
    group.entries.delete(entry);
    if (!group.entries.top) this.#largest.delete(group);
  }

  #change(entry: Entry, by: number): void {
    if (by === 0) return;
    const wasIdle = entry.used === 0;
    if (wasIdle) entry.group = this.#groupOf(entry.owner); // an idle group may have been retired
    const { group } = entry;
    this.#used += by;
    entry.used += by;
    group.used += by;
    if (wasIdle) this.#addVictim(entry);
    else if (entry.used === 0) this.#retire(entry);
    else group.entries.moved(entry);
    this.#largest.moved(group);
  }

  #retire(entry: Entry): void {
    this.#removeVictim(entry);
    this.#entries.retire(entry.owner.id);
    if (entry.group.used === 0) this.#groups.retire(entry.owner.group);
  }
}

/** The cell that gives way when its account is at its share: the largest test cell, else the largest live one. */
function firstToGive(account: Group | undefined, { evictedFirst }: Owner): Owner | undefined {
  const first = account?.entries.top;
  return first && (first.evictedFirst || !evictedFirst) ? first.owner : undefined;
}
