// Decides which row counts a name, and bounds their number. At its cap, new subjects of a cell share their rule's
// overflow row. At the bound of all cells, a smaller owner takes a place from the largest one, whose counter is given
// up: its units move to its rule's overflow row. So forged ids neither exhaust memory, nor reset a count, nor cost
// another owner its own. Caution: a name without a row is not free of charge. `findSlot` returns what it would get and
// makes room for it, and includes the rows that earlier rules of the same request will open, so that the last free row
// is never promised twice.
import type { Ledger } from "../../fairness/ledger.ts";
import { cellOwner, type Owner } from "../../fairness/owners.ts";
import { LIMIT_MAX, type RateLimit } from "../../kernel/ratelimit/rule.ts";
import { oldestCounted, spanAt } from "../../kernel/ratelimit/window.ts";
import { type Subject, subjectOf } from "../counter.ts";
import type { Cell, Rule } from "./cells.ts";
import { RowStore } from "./row-store.ts";
import { CHARGED, NONE } from "./rows.ts";
import { RULE_PLACES } from "./rules.ts";

/** Bounds of one cell. */
export type CellBounds = {
  /** Counters of one subject each. */
  counters: number;
  /** Overflow rows are extra, one per rule, and bounded too: rule ids can be forged as well as key ids. */
  overflow: number;
};

/** Results of `findSlot` that are no slot: may open its own row, the rule's overflow row, or none (refuse the call). */
export const OWN_ROW = -1;
export const OVERFLOW_ROW = -2;
export const NO_ROW = -3;

// One request pays for a sweep, so most look at the rows that are likely to have expired, and all rows of a cell are
// examined once a second at most.
const SWEEP_ROWS = 100;
const SWEEP_ALL_EVERY_MS = 1_000;
const FREED_MAX = 5_000;
/** Rows that were charged lately and are passed over before one of them is evicted. */
const SECOND_CHANCES = 64;

export class RowIndex {
  readonly store: RowStore;
  readonly #ledger: Ledger;
  readonly #bounds: CellBounds;
  readonly #onChange: (slot: number) => void;
  /** The rows of the current request, which must stay, and how many of them are known. */
  #slots: readonly number[] = [];
  #pinned = 0;
  #planned = { counters: 0, overflow: 0, places: 0 };
  overflowed = 0;
  refused = 0;
  lapsed = 0;
  evicted = 0;

  /** `onChange` is called with a row that got units other than by a charge. */
  constructor(ledger: Ledger, bounds: CellBounds, onChange: (slot: number) => void) {
    this.store = new RowStore(ledger);
    this.#ledger = ledger;
    this.#bounds = bounds;
    this.#onChange = onChange;
  }

  /** Starts a request. Its caller puts the row of each rule into `slots`, in order. */
  begin(slots: readonly number[]): void {
    this.#slots = slots;
    this.#planned.counters = 0;
    this.#planned.overflow = 0;
    this.#planned.places = 0;
  }

  /**
   * The slot that counts rule `i` of this request, or OWN_ROW, OVERFLOW_ROW, NO_ROW. Opens nothing, and evicts
   * nothing for a peek. A subject that shared an overflow row gets an empty row once there is room: carrying the shared
   * count over would let forged ids use up the limit of every later subject.
   */
  findSlot(request: Subject, limit: RateLimit, i: number, isPeek: boolean, now: number): number {
    const rule = this.store.rule(request, limit, i);
    const own = rule === undefined ? NONE : this.store.rowOf(rule, subjectOf(request, limit));
    return own === NONE ? this.#findRoom(request, limit, i, isPeek, now) : own;
  }

  /** Opens the row that `findSlot` promised. */
  open(kind: typeof OWN_ROW | typeof OVERFLOW_ROW, request: Subject, limit: RateLimit): number {
    return kind === OWN_ROW ? this.store.open(request, limit) : this.store.openOverflow(request, limit);
  }

  #findRoom(request: Subject, limit: RateLimit, i: number, isPeek: boolean, now: number): number {
    this.#pinned = i;
    const cell = this.store.cells.find(request);
    if (cell !== undefined && this.#isAtCap(cell)) this.#sweepFull(cell, now);
    const owner = cell?.owner ?? ownerOf(request);
    const rule = this.store.rule(request, limit, i); // a sweep may have released it
    const places = (limit.algorithm === "sliding" ? 2 : 1) + (rule === undefined ? RULE_PLACES : 0);
    const mayOpen = !this.#mustShare(cell, rule, now) && !(cell !== undefined && this.#isAtCap(cell));
    if (mayOpen && this.#makeRoom(owner, places, isPeek, now)) {
      this.#planned.counters++;
      this.#planned.places += places;
      return OWN_ROW;
    }
    this.overflowed++;
    this.#ledger.countRefusal(owner);
    if (rule !== undefined && rule.overflow !== NONE) return rule.overflow;
    if (this.#hasOverflowRoom(cell, owner, places, isPeek, now)) {
      this.#planned.overflow++;
      this.#planned.places += places;
      return OVERFLOW_ROW;
    }
    this.refused++;
    return NO_ROW;
  }

  /** Whether a counter of this rule was evicted and has not expired: the subject may be the one it belonged to. */
  #mustShare(cell: Cell | undefined, rule: Rule | undefined, now: number): boolean {
    return (rule !== undefined && rule.sharedUntil > now) || (cell !== undefined && cell.refusedUntil > now);
  }

  #isAtCap(cell: Cell): boolean {
    return cell.counters + this.#planned.counters >= this.#bounds.counters;
  }

  /** The largest owner gets no place from another one, so its overflow row evicts a counter of its own. */
  #hasOverflowRoom(cell: Cell | undefined, owner: Owner, places: number, isPeek: boolean, now: number): boolean {
    if ((cell?.overflow ?? 0) + this.#planned.overflow >= this.#bounds.overflow) return false;
    if (cell !== undefined && cell.refusedUntil > now) return false;
    if (this.#makeRoom(owner, places, isPeek, now)) return true;
    if (cell === undefined || isPeek) return (cell?.counters ?? 0) > 0;
    while (!this.#fits(places)) if (!this.#evictOne(cell, now)) return false;
    return true;
  }

  #fits(places: number): boolean {
    return this.#ledger.used + this.#planned.places + places <= this.#ledger.limits.bound;
  }

  #makeRoom(owner: Owner, places: number, isPeek: boolean, now: number): boolean {
    if (this.store.rows.full || !this.#fits(places)) this.#sweepSome(now);
    while (!this.#fits(places)) {
      const victim = this.#ledger.victimFor(owner, this.#planned.places + places);
      const cell = victim && this.store.cells.ownedBy(victim);
      if (cell === undefined) return false;
      if (isPeek) return true;
      if (!this.#evictOne(cell, now)) return false;
    }
    return true;
  }

  /** Frees expired rows, cell by cell. */
  #sweepSome(now: number): void {
    const { cells } = this.store;
    let left = SWEEP_ROWS;
    for (let i = Math.min(cells.size, SWEEP_ROWS); i > 0 && left > 0; i--) {
      const cell = cells.next();
      if (cell === undefined) return;
      left -= this.#sweep(cell, now, left);
      this.store.dropIfEmpty(cell, now);
    }
  }

  #sweep(cell: Cell, now: number, max: number): number {
    const steps = Math.min(cell.size, max);
    const freedMax = this.lapsed + FREED_MAX;
    for (let i = 0; i < steps && this.lapsed < freedMax; i++) this.#freeExpired(cell.step(), now);
    return steps;
  }

  /** Frees expired rows of a cell at its cap. */
  #sweepFull(cell: Cell, now: number): void {
    let freed = 0;
    for (const i of cell.heads.keys()) {
      while (freed < SWEEP_ROWS && cell.heads[i] !== NONE && this.#freeExpired(cell.heads[i]!, now)) freed++;
    }
    if (freed > 0 || now < cell.sweptAt + SWEEP_ALL_EVERY_MS) return;
    cell.sweptAt = now;
    this.#sweep(cell, now, cell.size);
  }

  #freeExpired(slot: number, now: number): boolean {
    if (this.store.lapsesAt(slot) > now || this.#isPinned(slot)) return false;
    this.store.release(slot, now);
    this.lapsed++;
    return true;
  }

  #isPinned(slot: number): boolean {
    for (let i = 0; i < this.#pinned; i++) if (this.#slots[i] === slot) return true;
    return false;
  }

  /** Evicts about the least recently charged counter of a cell (second chance); false if it has none. */
  #evictOne(cell: Cell, now: number): boolean {
    const { store } = this;
    let chances = SECOND_CHANCES;
    for (let steps = 2 * cell.size; steps > 0; steps--) {
      const slot = cell.step();
      const until = store.lapsesAt(slot);
      if (this.#isPinned(slot) || (until > now && store.ruleOf(slot).overflow === slot)) continue;
      if (until > now) {
        if (chances-- > 0 && store.rows.has(slot, CHARGED)) {
          store.rows.mark(slot, CHARGED, false);
          continue;
        }
        this.evicted++;
        this.#ledger.countRefusal(cell.owner);
        if (!this.#moveUnits(slot, until, now)) continue;
      } else this.lapsed++;
      store.release(slot, now);
      return true;
    }
    return false;
  }

  /** Moves the units of a row to its rule's overflow row. False if it has become that row itself. */
  #moveUnits(slot: number, until: number, now: number): boolean {
    const rule = this.store.ruleOf(slot);
    const { cell } = rule;
    if (rule.overflow === NONE && cell.overflow >= this.#bounds.overflow) {
      cell.refusedUntil = Math.max(cell.refusedUntil, until);
      return true;
    }
    rule.sharedUntil = Math.max(rule.sharedUntil, until);
    const becomes = rule.overflow === NONE;
    if (becomes) this.store.becomeOverflow(slot);
    else this.#addUnits(rule, slot, now);
    this.#onChange(rule.overflow);
    return !becomes;
  }

  #addUnits(rule: Rule, slot: number, now: number): void {
    const { rows } = this.store;
    const oldest = oldestCounted(rule, spanAt(rule, now));
    let total = rows.expireBefore(rule.overflow, oldest);
    rows.expireBefore(slot, oldest);
    for (const [i, units] of rows.spans(slot).entries()) {
      const added = Math.min(units, LIMIT_MAX - total);
      if (added > 0) rows.add(rule.overflow, rows.oldest(slot) + i, added);
      total += added;
    }
  }
}

function ownerOf({ workspace_id, env, account_id = null }: Subject): Owner {
  return cellOwner(workspace_id, env, account_id);
}
