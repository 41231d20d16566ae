// What this process holds of one balance: blocks of units that it has taken and spends in memory. Nothing here waits,
// so a check that finds its units is answered without the database.
import type { Owner } from "../../fairness/owners.ts";
import { addPart, blockSize, sumOf } from "../../kernel/quotas/allocation.ts";
import type { Period } from "../../kernel/quotas/period.ts";
import type { Quota } from "../../kernel/quotas/quota.ts";
import { isWithin, type Block, type Spent } from "./blocks.ts";
import type { Metered } from "./definitions.ts";
import { availableOf, type Demand, type Return, type Stored, type Taken, type Usage, type Written } from "./takes.ts";

/** How long a denial is trusted, unless this process changes the balance: another process may give units back. */
const EXHAUSTED_MS = 1_000;
/** Units that are unused for this long are given back. */
const UNUSED_MS = 10_000;

type Availability = "ready" | "denied" | "unknown";

/**
 * A quota of the caller, and what this process holds of its balance. Keys that rotation made share the balance, but
 * their quotas may differ in amount and overage; so may those of a tenant's keys, in the seconds after a change.
 */
export type AppliedQuota = { readonly metered: Metered; readonly holding: Holding };

/** Units that are taken and not spent, and how many of them came from the amount and from grants. */
type Unspent = { taken: number; fromAmount: number; granted: number };
type HoldingOptions = Pick<Holding, "metered" | "workspace_id" | "owner"> & { now: number };

export class Holding {
  /** Names the balance and its calendar. Amount and overage are the caller's own. */
  readonly metered: Metered;
  readonly workspace_id: string;
  /** Who pays for its writes. */
  readonly owner: Owner;
  /** Not kept beyond one request: there was no room for it. */
  isTransient = false;
  /** Unspent units in blocks. */
  unspent = 0;
  /** Units in leases of nodes, and how many of them came from grants. */
  held = 0;
  heldGranted = 0;
  usedAt = 0;
  stored: Stored | null = null;
  /** The transaction in flight; one at a time. */
  pending: Promise<void> | null = null;
  /** What requests that wait for a transaction ask for, the first one first. */
  readonly demands = new Set<Demand>();
  /** Counts transactions, so that a read notices one in between. */
  transactions = 0;
  /**
   * Raised when everything is given up, as when a grant is voided. Units of earlier blocks that come again are given
   * back, also when nothing was left of the block.
   */
  #generation = 0;
  /** Whether the last change has not been published to other processes. */
  isUnpublished = false;
  #storedAt = Number.NEGATIVE_INFINITY;
  #blocks: Block[] = [];
  #returns: Return[] = [];

  constructor({ metered, workspace_id, owner, now }: HoldingOptions) {
    this.metered = metered;
    this.workspace_id = workspace_id;
    this.owner = owner;
    this.usedAt = now;
  }

  /** Whether these units can be spent now; `unknown` needs the database. */
  availability(quota: Quota, units: number, now: number): Availability {
    this.#closeEnded(now);
    if (this.stored !== null && now < this.stored.period.end && units <= this.spendable(quota)) return "ready";
    if (quota.overage === "report" || !this.isKnown(now)) return "unknown";
    return this.remaining(quota, now) < units ? "denied" : "unknown";
  }

  /** Unspent units in blocks that may be spent under this quota. */
  spendable(quota: Quota): number {
    let sum = 0;
    for (const block of this.#blocks) if (isWithin(block, quota)) sum += sumOf(block.parts);
    return sum;
  }

  /** As the database had it, but what this process holds is not used, and grants that have expired since are gone. */
  usage(now: number): Usage {
    const { stored } = this;
    if (stored === null) return { fromAmount: 0, granted: 0 };
    const own = this.unspentIn(stored.period, now);
    let granted = stored.granted + own.granted;
    for (const { left, end } of stored.expiring) {
      if (now < end) break;
      granted -= left;
    }
    return { fromAmount: stored.fromAmount - own.fromAmount, granted };
  }

  /** Units that this process can spend under this quota, with those that it could take. */
  remaining(quota: Quota, now: number): number {
    return availableOf(this.usage(now), quota);
  }

  /** Whether what the database has was read lately enough to refuse a request. */
  isKnown(now: number): boolean {
    const { stored } = this;
    return stored?.others != null && now < stored.period.end && now - this.#storedAt < EXHAUSTED_MS;
  }

  /** Invalidates what was read: the database has changed, for example by a grant. */
  forget(): void {
    this.#storedAt = Number.NEGATIVE_INFINITY;
  }

  know(stored: Stored, now: number): void {
    this.stored = stored;
    this.#storedAt = now;
  }

  /** Adds the units of a take, which were published with it. */
  add({ parts, stored }: Taken, now: number): void {
    this.know(stored, now);
    const size = sumOf(parts);
    if (size === 0) return;
    const fromAmount = parts.some(({ grant }) => grant === null) ? stored.fromAmount : 0;
    const generation = this.#generation;
    const end = Math.min(stored.period.end, ...parts.map((part) => part.end));
    this.#blocks.push({ period: stored.period, end, size, fromAmount, generation, parts, isOver: false });
    this.unspent += size;
  }

  /** Precondition: `availability` returned "ready" for these units. */
  spend(quota: Quota, units: number, now: number): Spent {
    const spent: Spent = [];
    let missing = units;
    while (missing > 0) {
      const block = this.#blocks.find((one) => isWithin(one, quota))!;
      const part = block.parts[0]!;
      const taken = Math.min(part.units, missing);
      part.units -= taken;
      missing -= taken;
      spent.push({ block, part: { ...part, units: taken } });
      if (part.units === 0) block.parts.shift();
      if (block.parts.length === 0) this.#blocks.splice(this.#blocks.indexOf(block), 1);
    }
    this.unspent -= units;
    this.usedAt = now;
    this.isUnpublished = true;
    return spent;
  }

  /** Puts spent units back, the last ones first. */
  restore(spent: Spent, units: number, now: number): void {
    let left = units;
    for (const { block, part } of spent.toReversed()) {
      const given = Math.min(part.units, left);
      if (given <= 0) continue;
      part.units -= given;
      left -= given;
      this.isUnpublished = true;
      if (block.isOver || block.generation < this.#generation || now >= block.end) {
        this.#returns.push({ period: block.period, parts: [{ ...part, units: given }] });
        continue;
      }
      addPart(block.parts, { ...part, units: given });
      if (!this.#blocks.includes(block)) this.#blocks.unshift(block);
      this.unspent += given;
    }
  }

  /** Whether the next block should be fetched: a quarter of the last one is left, and there are more to take. */
  isLow(quota: Quota): boolean {
    if (this.unspent > (this.#blocks.at(-1)?.size ?? 0) / 4) return false;
    return quota.overage === "report" || this.stored === null || availableOf(this.stored, quota) > 0;
  }

  isUnused(now: number): boolean {
    return now - this.usedAt >= UNUSED_MS;
  }

  /** Whether there is something to give back, or to report to other processes where `publishes`. */
  isDue(now: number, publishes: boolean): boolean {
    return this.isUnused(now) || this.hasReturns || this.#hasEnded(now) || (publishes && this.isUnpublished);
  }

  get hasReturns(): boolean {
    return this.#returns.length > 0;
  }

  /**
   * What is taken and not spent, with the units that wait to be given back: those that were taken in this period, how
   * many of them came from its amount, and units of grants that have not ended, whenever they were taken.
   */
  unspentIn({ start }: Pick<Period, "start">, now: number): Unspent {
    const sum = { taken: 0, fromAmount: 0, granted: 0 };
    for (const from of [this.#blocks, this.#returns])
      for (const { period, parts } of from)
        for (const { grant, units, end } of parts) {
          if (period.start === start) sum.taken += units;
          if (grant === null && period.start === start) sum.fromAmount += units;
          if (grant !== null && now < end) sum.granted += units;
        }
    return sum;
  }

  /**
   * What other processes get to know: of the period that the transaction in flight has read, with the units that it
   * takes, or of the one that was read last.
   */
  publish({ parts, stored }: Written, now: number) {
    this.isUnpublished = false;
    const period_start = (stored ?? this.stored)?.period.start ?? 0;
    const { taken, fromAmount } = this.unspentIn({ start: period_start }, now);
    const granted = taken - fromAmount + this.heldGranted + sumOf(parts.filter(({ grant }) => grant !== null));
    return { unspent: taken + sumOf(parts), held: this.held, granted, period_start };
  }

  /**
   * Keeps at most two blocks, which units that come back can exceed, or one while another may be fetched: that is what
   * a crash may cost. True if units wait to be given back.
   */
  shed(quota: Quota): boolean {
    const { overage, amount } = quota;
    const available = this.stored === null ? 0 : availableOf(this.stored, quota);
    const isReport = overage === "report";
    const size = blockSize(isReport ? Math.max(amount, this.stored?.taken ?? 0) : available + this.unspent);
    let kept = this.pending ? size : 2 * size;
    for (const { most } of this.demands) kept += most;
    while (this.unspent > kept) {
      const [oldest] = this.#blocks;
      this.#giveUp((block) => block === oldest);
    }
    return this.hasReturns;
  }

  /** Takes what is to be given back out of this holding, with what is left of ended blocks. */
  takeReturns(now: number): Return[] {
    this.#closeEnded(now);
    return this.#returns.splice(0);
  }

  /** Undoes `takeReturns`: they were not given back. */
  putBack(returns: readonly Return[]): void {
    this.#returns.push(...returns);
  }

  #closeEnded(now: number): void {
    if (this.#hasEnded(now)) this.#giveUp(({ end }) => now >= end);
  }

  #hasEnded(now: number): boolean {
    for (const { end } of this.#blocks) if (now >= end) return true;
    return false;
  }

  /** Not while a take is pending: its block would be of the new generation. */
  giveUpAll(): void {
    this.#generation++;
    this.#giveUp(() => true);
    this.forget();
  }

  /** Gives up the blocks that may not be spent under this quota, so that their units can be taken under it. */
  giveUpBeyond(quota: Quota): void {
    this.#giveUp((block) => !isWithin(block, quota));
  }

  #giveUp(isOver: (block: Block) => boolean): void {
    const over = this.#blocks.filter(isOver);
    if (over.length === 0) return; // nothing to publish either
    for (const block of over) {
      this.unspent -= sumOf(block.parts);
      this.#returns.push({ period: block.period, parts: block.parts });
      block.parts = [];
      block.isOver = true;
    }
    this.#blocks = this.#blocks.filter((block) => !block.isOver);
    this.isUnpublished = true;
    this.forget(); // until they are in the database, fewer would seem to be left
  }
}
