// The counters of one cell (an environment of a workspace): its rules, its rows, and which of them wait to be saved.
// Caution: a row is in exactly one of the two lists. Both are linked through the rows, so a row must leave its list
// before it is released.
import { cellOwner, type Owner } from "../../fairness/owners.ts";
import type { RateLimit } from "../../kernel/ratelimit/rule.ts";
import type { Subject } from "../counter.ts";
import { CounterRows, DIRTY, NEXT, NONE, PREV } from "./rows.ts";

/** A rule that has counters. */
export type Rule = Pick<RateLimit, "id" | "algorithm" | "window_ms" | "scope"> & {
  readonly cell: Cell;
  readonly project_id: string;
  readonly code: number;
  /** The value of the field RULE in its rows. */
  readonly number: number;
  /** Number of its rows, of any kind. */
  rows: number;
  /** The row of calls without an id, and the one that subjects without a row share; NONE if it is not open. */
  anonymous: number;
  overflow: number;
  /**
   * Until then new subjects share the overflow row even if there is room: it holds units of a counter that was given
   * up.
   */
  sharedUntil: number;
};

/** Rows in the order in which they were appended. */
class RowList {
  readonly #rows: CounterRows;
  head = NONE;
  #tail = NONE;
  size = 0;

  constructor(rows: CounterRows) {
    this.#rows = rows;
  }

  append(slot: number): void {
    this.#rows.set(slot, PREV, this.#tail);
    this.#rows.set(slot, NEXT, NONE);
    if (this.#tail === NONE) this.head = slot;
    else this.#rows.set(this.#tail, NEXT, slot);
    this.#tail = slot;
    this.size++;
  }

  remove(slot: number): void {
    const [before, after] = [this.#rows.get(slot, PREV), this.#rows.get(slot, NEXT)];
    if (before === NONE) this.head = after;
    else this.#rows.set(before, NEXT, after);
    if (after === NONE) this.#tail = before;
    else this.#rows.set(after, PREV, before);
    this.size--;
  }
}

export class Cell {
  readonly workspace_id: string;
  readonly env: "live" | "test";
  readonly owner: Owner;
  /** By name. */
  readonly rules = new Map<string, Rule>();
  readonly #rows: CounterRows;
  readonly #saved: RowList;
  readonly #unsaved: RowList;
  /** Rows of one subject each, and overflow rows. */
  counters = 0;
  overflow = 0;
  /**
   * Until then a subject without a row or an overflow row is refused: a counter was evicted and none holds its units.
   */
  refusedUntil = 0;
  /** Index among all cells; kept by their list. */
  place = 0;
  /** When all of its rows were last examined. */
  sweptAt = 0;
  #hand = NONE;

  constructor(rows: CounterRows, request: Subject) {
    const { workspace_id, env, account_id = null } = request;
    this.workspace_id = workspace_id;
    this.env = env;
    this.owner = cellOwner(workspace_id, env, account_id);
    this.#rows = rows;
    this.#saved = new RowList(rows);
    this.#unsaved = new RowList(rows);
  }

  get size(): number {
    return this.#saved.size + this.#unsaved.size;
  }

  get dirty(): number {
    return this.#unsaved.size;
  }

  add(slot: number): void {
    this.#saved.append(slot);
  }

  remove(slot: number): void {
    this.#leave(slot);
  }

  /** True when it was not waiting to be saved before. */
  markDirty(slot: number): boolean {
    if (this.#rows.has(slot, DIRTY)) return false;
    this.#leave(slot);
    this.#rows.mark(slot, DIRTY, true);
    this.#unsaved.append(slot);
    return true;
  }

  /** The row that has waited longest to be saved, which counts as saved from now on; NONE when there is none. */
  takeDirty(): number {
    const slot = this.#unsaved.head;
    if (slot === NONE) return NONE;
    this.#leave(slot);
    this.#rows.mark(slot, DIRTY, false);
    this.#saved.append(slot);
    return slot;
  }

  /** The rows that have been unchanged for longest, more or less: one that is saved and one that is not. */
  get heads(): readonly number[] {
    return [this.#saved.head, this.#unsaved.head];
  }

  /** Clock hand: returns the next row of a circular scan. */
  step(): number {
    if (this.#hand === NONE) this.#hand = this.#first();
    const slot = this.#hand;
    if (slot !== NONE) this.#hand = this.#after(slot);
    return slot;
  }

  #first(): number {
    return this.#saved.head === NONE ? this.#unsaved.head : this.#saved.head;
  }

  #after(slot: number): number {
    const after = this.#rows.get(slot, NEXT);
    return after === NONE && !this.#rows.has(slot, DIRTY) ? this.#unsaved.head : after;
  }

  #leave(slot: number): void {
    if (this.#hand === slot) this.#hand = this.#after(slot);
    (this.#rows.has(slot, DIRTY) ? this.#unsaved : this.#saved).remove(slot);
  }
}

/** Every cell that has counters, in turn. */
export class Cells {
  readonly #byWorkspace = { live: new Map<string, Cell>(), test: new Map<string, Cell>() };
  readonly #byOwner = new Map<string, Cell>();
  readonly #all: Cell[] = [];
  #last = 0;

  get size(): number {
    return this.#all.length;
  }

  find({ workspace_id, env }: Pick<Subject, "workspace_id" | "env">): Cell | undefined {
    return this.#byWorkspace[env].get(workspace_id);
  }

  add(cell: Cell): Cell {
    this.#byWorkspace[cell.env].set(cell.workspace_id, cell);
    this.#byOwner.set(cell.owner.id, cell);
    cell.place = this.#all.length;
    this.#all.push(cell);
    return cell;
  }

  ownedBy({ id }: Owner): Cell | undefined {
    return this.#byOwner.get(id);
  }

  delete(cell: Cell): void {
    if (!this.#byOwner.delete(cell.owner.id)) return;
    this.#byWorkspace[cell.env].delete(cell.workspace_id);
    const last = this.#all.pop();
    if (last === undefined || last === cell) return;
    this.#all[cell.place] = last;
    last.place = cell.place;
  }

  /** The next cell in turn. */
  next(): Cell | undefined {
    this.#last = this.#last + 1 < this.#all.length ? this.#last + 1 : 0;
    return this.#all[this.#last];
  }

  [Symbol.iterator](): Iterator<Cell> {
    return this.#all.values();
  }
}
