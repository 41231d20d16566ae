// What this process holds of one balance: blocks of units that it has taken and spends in memory. Nothing here waits,
// so a check that finds its units is answered without the database.
import type { Owner } from "../../fairness/owners.ts";
import { addPart, blockSize, sumOf, type Part } from "../../kernel/quotas/allocation.ts";
import type { Period } from "../../kernel/quotas/period.ts";
import type { Quota } from "../../kernel/quotas/quota.ts";
import type { Metered } from "./definitions.ts";
import type { Return, Stored, Taken } from "./takes.ts";

/** How long a denial is trusted, unless this process changes the balance: another process may give units back. */
const EXHAUSTED_MS = 1_000;
/** Units that are unused for this long are given back. */
const UNUSED_MS = 10_000;

type Block = {
  readonly period: Period;
  readonly end: number;
  readonly size: number;
  /** The holding's generation when the block was taken. */
  readonly generation: number;
  parts: Part[];
  /** The block was given up: spent units that are restored to it are given back too. */
  isOver: boolean;
};

/** Units that were spent, and where they came from. */
export type Spent = { readonly block: Block; readonly part: Part }[];

type Availability = "ready" | "denied" | "unknown";

type HoldingOptions = Pick<Holding, "metered" | "order" | "workspace_id" | "owner" | "isTransient"> & {
  now: number;
};

export class Holding {
  metered: Metered;
  /** Sequence number of the definition in use. */
  order: number;
  readonly workspace_id: string;
  /** Who pays for its writes. */
  readonly owner: Owner;
  /** Not kept beyond one request: there was no room for it. */
  isTransient: boolean;
  /** Unspent units in blocks. */
  unspent = 0;
  /** Units in leases of nodes, and how many of them came from grants. */
  held = 0;
  heldGranted = 0;
  usedAt = 0;
  stored: Stored | null = null;
  /** The transaction in flight; one at a time. */
  pending: Promise<void> | null = null;
  /** Counts transactions, so that a read notices one in between. */
  turns = 0;
  /**
   * Raised when everything is given up, as after a change of the quota. Units of earlier blocks that come again are
   * given back, also where nothing was left of the block; so are those of a take that began earlier.
   */
  generation = 0;
  /** Whether the last change has not been published to other processes. */
  isUnpublished = false;
  #storedAt = Number.NEGATIVE_INFINITY;
  #blocks: Block[] = [];
  #returns: Return[] = [];

  constructor({ metered, order, workspace_id, owner, now, isTransient }: HoldingOptions) {
    this.metered = metered;
    this.order = order;
    this.workspace_id = workspace_id;
    this.owner = owner;
    this.usedAt = now;
    this.isTransient = isTransient;
  }

  get quota(): Quota {
    return this.metered.quota;
  }

  /**
   * Takes over a changed definition: units that were taken under another one are given back. One that was read earlier
   * changes nothing: keys of a tenant are read at different times, and their checks must not replace each other's
   * definition.
   */
  define(metered: Metered, order: number, now: number): void {
    if (order < this.order) return;
    const { amount, overage } = this.quota;
    this.metered = metered;
    this.order = order;
    if (metered.quota.amount === amount && metered.quota.overage === overage) return;
    this.#giveUpAll();
    this.stored = null;
    this.usedAt = now;
  }

  /** Whether these units can be spent now; `unknown` needs the database. */
  availability(units: number, now: number): Availability {
    this.#closeEnded(now);
    if (units <= this.unspent && this.stored !== null && now < this.stored.period.end) return "ready";
    if (this.quota.overage === "report" || !this.isKnown(now)) return "unknown";
    return this.unspent + (this.stored?.available ?? 0) < units ? "denied" : "unknown";
  }

  /** Whether what the database has was read lately enough. */
  isKnown(now: number): boolean {
    return this.stored !== null && now < this.stored.period.end && now - this.#storedAt < EXHAUSTED_MS;
  }

  /** Invalidates what was read: the database has changed, for example by a grant. */
  forget(): void {
    this.#storedAt = Number.NEGATIVE_INFINITY;
  }

  /** `generation`: the one in which the transaction began. */
  know(stored: Stored, now: number, generation: number): void {
    if (generation !== this.generation) return; // what is available is that of another definition
    this.stored = stored;
    this.#storedAt = now;
  }

  /** Adds the units of a take. */
  add({ parts, end, stored }: Taken, now: number, generation: number): void {
    this.know(stored, now, generation);
    const size = sumOf(parts);
    if (size === 0) return;
    this.#blocks.push({ period: stored.period, end, size, generation, parts, isOver: false });
    this.unspent += size;
    this.isUnpublished = true;
    if (generation !== this.generation) this.#giveUp((block) => block.generation === generation);
  }

  /** Precondition: `availability` returned "ready" for these units. */
  spend(units: number, now: number): Spent {
    const spent: Spent = [];
    let missing = units;
    while (missing > 0) {
      const block = this.#blocks[0]!;
      const part = block.parts[0]!;
      const taken = Math.min(part.units, missing);
      part.units -= taken;
      missing -= taken;
      spent.push({ block, part: { grant: part.grant, units: taken } });
      if (part.units === 0) block.parts.shift();
      if (block.parts.length === 0) this.#blocks.shift();
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
      if (block.isOver || block.generation < this.generation || now >= block.end) {
        this.#returns.push({ period: block.period, parts: [{ grant: part.grant, units: given }] });
        continue;
      }
      addPart(block.parts, part.grant, given);
      if (!this.#blocks.includes(block)) this.#blocks.unshift(block);
      this.unspent += given;
    }
  }

  /** Whether the next block should be fetched: a quarter of the last one is left. */
  get isLow(): boolean {
    const last = this.#blocks.at(-1);
    return this.unspent <= (last?.size ?? 0) / 4;
  }

  isUnused(now: number): boolean {
    return now - this.usedAt >= UNUSED_MS;
  }

  /** Whether there is something to give back, or to report to other processes where `publishes`. */
  isDue(now: number, publishes: boolean): boolean {
    return this.isUnused(now) || this.hasReturns || (publishes && this.isUnpublished);
  }

  get hasReturns(): boolean {
    return this.#returns.length > 0;
  }

  /** Unspent units that came from grants. */
  get granted(): number {
    return this.#blocks.reduce((sum, { parts }) => sum + sumOf(parts.filter(({ grant }) => grant !== null)), 0);
  }

  /** What is taken and not spent, with the units that wait to be given back. */
  get parts(): { unspent: number; held: number; granted: number } {
    const waiting = this.#returns.flatMap(({ parts }) => parts);
    const granted = sumOf(waiting.filter(({ grant }) => grant !== null)) + this.granted + this.heldGranted;
    return { unspent: this.unspent + sumOf(waiting), held: this.held, granted };
  }

  /**
   * Gives up what is beyond a block: leases that come back bring more, and with the block that may be on its way a
   * crash may cost two. True where units wait to be given back.
   */
  shed(): boolean {
    const { available = 0, taken = 0 } = this.stored ?? {};
    const { overage, amount } = this.quota;
    const most = blockSize(overage === "report" ? Math.max(amount, taken) : available + this.unspent);
    while (this.unspent > most) {
      const [oldest] = this.#blocks;
      this.#giveUp((block) => block === oldest);
    }
    return this.hasReturns;
  }

  /** Takes what is to be given back out of this holding: what is left of ended blocks, or of all of them. */
  takeReturns(now: number, all: boolean): Return[] {
    this.#closeEnded(now);
    if (all) this.#giveUpAll();
    return this.#returns.splice(0);
  }

  /** Undoes `takeReturns`: they were not given back. */
  putBack(returns: readonly Return[]): void {
    this.#returns.push(...returns);
  }

  #closeEnded(now: number): void {
    for (const block of this.#blocks) if (now >= block.end) return this.#giveUp(({ end }) => now >= end);
  }

  #giveUpAll(): void {
    this.generation++;
    this.#giveUp(() => true);
  }

  #giveUp(isOver: (block: Block) => boolean): void {
    const over = this.#blocks.filter(isOver);
    if (over.length === 0) return; // there is no news for other processes either
    for (const block of over) {
      this.unspent -= sumOf(block.parts);
      this.#returns.push({ period: block.period, parts: block.parts });
      block.parts = [];
      block.isOver = true;
    }
    this.#blocks = this.#blocks.filter((block) => !block.isOver);
    this.isUnpublished = true;
  }
}
