// Rows that have changed since they were last saved, and the conversion between rows and saved counters. No I/O.
// Caution: a row counts as saved once it is taken; when saving fails it must be requeued, or a crash loses more than
// the last pass (docs/design/0012-counters-and-leases.md).
import type { RateLimit } from "../../kernel/ratelimit/rule.ts";
import { lapsesAt, oldestCounted, spanAt, SUB_WINDOWS_AHEAD } from "../../kernel/ratelimit/window.ts";
import type { Subject } from "../counter.ts";
import type { Cell, Rule } from "./cells.ts";
import { OVERFLOW_ROW, OWN_ROW, type RowIndex, NO_ROW } from "./row-index.ts";
import { OVERFLOW_SUBJECT } from "./row-store.ts";
import { DIRTY, NONE } from "./rows.ts";
import {
  type CounterName,
  formatWindows,
  keyOf,
  parseKey,
  parseWindows,
  SAVED_WINDOW_MIN_MS,
  type SavedCounter,
} from "./saved-counter.ts";

export type LoadOptions = {
  /** Who created a workspace, as requests will name them. */
  accountOf?: (workspace_id: string) => string | null;
  /** Another page follows. */
  more?: boolean;
};

/** Rows that a cell may save before it is the next cell's turn. */
const TURN_ROWS = 100;

export class DirtyRows {
  readonly #index: RowIndex;
  /** In the order of their turns: a Set iterates in insertion order. */
  readonly #cells = new Set<Cell>();
  /** While counters are loaded: until when the overflow counters of these rules are shared. */
  readonly #loadedShared = new Map<Rule, number>();

  constructor(index: RowIndex) {
    this.#index = index;
  }

  get size(): number {
    let rows = 0;
    for (const cell of this.#cells) rows += cell.dirty;
    return rows;
  }

  get cells(): number {
    return this.#cells.size;
  }

  touch(slot: number): void {
    const { store } = this.#index;
    if (store.rows.has(slot, DIRTY)) return;
    const { cell, window_ms } = store.ruleOf(slot);
    if (window_ms < SAVED_WINDOW_MIN_MS) return;
    cell.markDirty(slot);
    this.#cells.add(cell);
  }

  /** Cells take turns, so that a million rows of one do not delay another's; oldest change first within a cell. */
  take(max: number, minWindowMs = 0): SavedCounter[] {
    const rows: SavedCounter[] = [];
    const turns = [...this.#cells];
    for (let turn = 0; turn < turns.length && rows.length < max; turn++) {
      const cell = turns[turn]!;
      if (this.#takeSome(cell, Math.min(TURN_ROWS, max - rows.length), minWindowMs, rows)) turns.push(cell);
      this.#cells.delete(cell);
      if (cell.dirty > 0) this.#cells.add(cell);
    }
    return rows;
  }

  /** False when the cell has no more of them. Rows of shorter windows go to the end of their cell's queue. */
  #takeSome(cell: Cell, max: number, minWindowMs: number, into: SavedCounter[]): boolean {
    let left = max;
    for (let steps = cell.dirty; steps > 0 && left > 0; steps--) {
      const slot = cell.takeDirty();
      if (this.#index.store.ruleOf(slot).window_ms < minWindowMs) cell.markDirty(slot);
      else {
        into.push(this.#saved(slot));
        left--;
      }
    }
    return left === 0;
  }

  requeue(rows: Iterable<SavedCounter>): void {
    for (const { key } of rows) {
      const name = parseKey(key);
      const slot = name ? this.#index.store.slotOf(...requestFor(name)) : NONE;
      if (slot !== NONE) this.touch(slot);
    }
  }

  /**
   * Overflow counters are shared only when the last page is loaded: a subject loaded after its rule's overflow counter
   * has a counter of its own, and what it had left must not be lost.
   */
  load(rows: Iterable<SavedCounter>, now: number, { accountOf = () => null, more = false }: LoadOptions = {}): number {
    let loaded = 0;
    for (const row of rows) {
      const name = parseKey(row.key);
      const windows = parseWindows(row.windows);
      if (name === null || windows === null) continue;
      const [subject, limit] = requestFor(name);
      const request = { ...subject, account_id: accountOf(name.workspace_id) };
      if (this.#restore(request, limit, name.subject, windows, now)) loaded++;
    }
    if (!more) this.#shareLoaded();
    return loaded;
  }

  #saved(slot: number): SavedCounter {
    const { store } = this.#index;
    const rule = store.ruleOf(slot);
    const { workspace_id, env } = rule.cell;
    const key = keyOf({ ...rule, workspace_id, env, subject: store.nameOf(slot) });
    const counts = store.rows.spans(slot);
    const first = counts.length === 0 ? 0 : store.rows.oldest(slot);
    return { key, lapses_at: store.lapsesAt(slot), windows: formatWindows(first, counts) };
  }

  #restore(
    request: Subject,
    limit: RateLimit,
    subject: string,
    { first, counts }: { first: number; counts: number[] },
    now: number,
  ): boolean {
    const { rows } = this.#index.store;
    const at = spanAt(limit, now);
    // If the clock was set back between two runs, saved units are ahead of any lease: count them as of now.
    const newest = limit.algorithm === "sliding" ? at + SUB_WINDOWS_AHEAD : at;
    const oldest = oldestCounted(limit, at);
    let slot: number | undefined;
    for (const [i, units] of counts.entries()) {
      const span = Math.min(first + i, newest);
      if (units === 0 || span < oldest) continue;
      slot ??= this.#open(request, limit, subject, now);
      if (slot === NO_ROW) return false;
      rows.expireBefore(slot, oldest);
      rows.add(slot, span, units);
      if (first + i > newest) this.touch(slot); // or the next start would count them again
      this.#shareUntil(slot, lapsesAt(limit, span));
    }
    return slot !== undefined;
  }

  #shareUntil(slot: number, until: number): void {
    const rule = this.#index.store.ruleOf(slot);
    if (rule.overflow !== slot) return;
    this.#loadedShared.set(rule, Math.max(this.#loadedShared.get(rule) ?? 0, until));
  }

  /** What an overflow counter held before is shared until it expires: it may be of counters that were evicted. */
  #shareLoaded(): void {
    for (const [rule, until] of this.#loadedShared) rule.sharedUntil = Math.max(rule.sharedUntil, until);
    this.#loadedShared.clear();
  }

  #open(request: Subject, limit: RateLimit, subject: string, now: number): number {
    const known = this.#index.store.slotOf(request, limit);
    if (known !== NONE) return known;
    this.#index.begin([]);
    const slot = this.#index.findSlot(request, limit, 0, false, now);
    if (subject === OVERFLOW_SUBJECT && slot !== NO_ROW) return this.#index.open(OVERFLOW_ROW, request, limit);
    return slot === OWN_ROW || slot === OVERFLOW_ROW ? this.#index.open(slot, request, limit) : slot;
  }
}

/** The request that would have created a counter of this name. */
function requestFor(name: CounterName): [Subject, RateLimit] {
  const { workspace_id, project_id, env, scope, subject, id, algorithm, window_ms } = name;
  const key_id = scope === "key" ? subject : null;
  const tenant_id = scope === "tenant" ? subject : null;
  return [
    { workspace_id, project_id, env, key_id, tenant_id },
    { id, limit: 1, window_ms, algorithm, scope },
  ];
}
