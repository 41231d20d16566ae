// Rows that have changed since they were last saved, and the conversion between rows and saved counters. No I/O.
// Caution: a row counts as saved once it is taken; when saving fails it must be requeued, or a crash loses more than
// the last pass (docs/design/0012-counters-and-leases.md).
import type { RateLimit } from "../../kernel/ratelimit/rule.ts";
import { lapsesAt, oldestCounted, spanAt, SUB_WINDOWS_AHEAD } from "../../kernel/ratelimit/window.ts";
import type { Subject } from "../counter.ts";
import { OVERFLOW_ROW, OVERFLOW_SUBJECT, OWN_ROW, type RowIndex, NO_ROW } from "./row-index.ts";
import {
  type CounterName,
  formatWindows,
  keyOf,
  parseKey,
  parseWindows,
  SAVED_WINDOW_MIN_MS,
  type SavedCounter,
} from "./saved-counter.ts";

export class DirtyRows {
  readonly #index: RowIndex;
  // A FIFO with each slot at most once, so that a busy counter does not starve a quiet one. A slot may have changed
  // owner.
  #queue: number[] = [];
  #next = 0;
  #queued = new Uint8Array(1024);

  constructor(index: RowIndex) {
    this.#index = index;
  }

  get size(): number {
    return this.#queue.length - this.#next;
  }

  touch(slot: number): void {
    if (this.#queued[slot] === 1) return;
    if (slot >= this.#queued.length) {
      const wider = new Uint8Array(Math.max(slot + 1, this.#queued.length * 2));
      wider.set(this.#queued);
      this.#queued = wider;
    }
    this.#queued[slot] = 1;
    this.#queue.push(slot);
  }

  take(max: number): SavedCounter[] {
    const rows: SavedCounter[] = [];
    while (rows.length < max && this.#next < this.#queue.length) {
      const slot = this.#queue[this.#next++]!;
      this.#queued[slot] = 0;
      const row = this.#saved(slot);
      if (row !== null) rows.push(row);
    }
    if (this.#next * 2 >= this.#queue.length) {
      this.#queue = this.#queue.slice(this.#next);
      this.#next = 0;
    }
    return rows;
  }

  requeue(rows: Iterable<SavedCounter>): void {
    for (const { key } of rows) {
      const name = parseKey(key);
      const slot = name && this.#index.slotOf(...requestFor(name));
      if (slot != null) this.touch(slot);
    }
  }

  *allRows(): Generator<SavedCounter> {
    for (let slot = 0; slot < this.#index.rows.high; slot++) {
      const row = this.#saved(slot);
      if (row !== null) yield row;
    }
  }

  load(rows: Iterable<SavedCounter>, now: number): number {
    let loaded = 0;
    for (const row of rows) {
      const name = parseKey(row.key);
      const windows = parseWindows(row.windows);
      if (name !== null && windows !== null && this.#restore(name, windows.first, windows.counts, now)) loaded++;
    }
    return loaded;
  }

  /** Null for a row that was freed, or reused for a short window, while it was queued. */
  #saved(slot: number): SavedCounter | null {
    const rule = this.#index.ruleOf(slot);
    if (rule === undefined || rule.window_ms < SAVED_WINDOW_MIN_MS) return null;
    const { rows } = this.#index;
    const key = keyOf({ ...rule, workspace_id: rule.workspace.id, subject: this.#index.subjectOf(slot) });
    const counts = rows.spans(slot);
    const first = counts.length === 0 ? 0 : rows.oldest(slot);
    return { key, lapses_at: rows.until[slot]!, windows: formatWindows(first, counts) };
  }

  #restore(name: CounterName, first: number, counts: number[], now: number): boolean {
    const at = spanAt(name, now);
    // If the clock was set back between two runs, saved units are ahead of any lease: count them as of now.
    const newest = name.algorithm === "sliding" ? at + SUB_WINDOWS_AHEAD : at;
    const oldest = oldestCounted(name, at);
    let slot: number | undefined;
    for (const [i, units] of counts.entries()) {
      const span = Math.min(first + i, newest);
      if (units === 0 || span < oldest) continue;
      slot ??= this.#open(name, now, lapsesAt(name, span));
      if (slot === NO_ROW) return false;
      this.#index.rows.expireBefore(slot, oldest);
      this.#index.rows.add(slot, span, units);
      this.#index.rows.keepUntil(slot, lapsesAt(name, span));
    }
    return slot !== undefined;
  }

  #open(name: CounterName, now: number, until: number): number {
    const [subject, limit] = requestFor(name);
    const known = this.#index.slotOf(subject, limit);
    if (known !== undefined) return known;
    const seat = name.subject === OVERFLOW_SUBJECT ? OVERFLOW_ROW : this.#index.findSlot(subject, limit, 0, now);
    return seat === OWN_ROW || seat === OVERFLOW_ROW ? this.#index.open(seat, subject, limit, now, until) : seat;
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
