// The in-process counter store: exact within this process, bounded in memory, synchronous, without I/O.
// docs/design/0005-rate-limiter-algorithm.md, docs/design/0012-counters-and-leases.md. bench: limiter/check
// Caution: a check evaluates every rule before it charges any (all or nothing), so between `#evaluate` and `#charge`
// nothing may run that moves the clock or the rows.
import { randomUUID } from "node:crypto";
import type { Ledger } from "../../fairness/ledger.ts";
import type { RateLimit } from "../../kernel/ratelimit/rule.ts";
import {
  lapsesAt,
  leaseEnd,
  leaseSpan,
  oldestCounted,
  remainingOf,
  resetMs,
  spanAt,
} from "../../kernel/ratelimit/window.ts";
import {
  type CheckRequest,
  type Counter,
  type Lease,
  type LeaseRequest,
  type RuleState,
  type Subject,
  subjectOf,
  type Verdict,
  verdictOf,
} from "../counter.ts";
import { DirtyRows, type LoadOptions } from "./dirty-rows.ts";
import { type HeldLease, LeaseTable } from "./leases.ts";
import { type CellBounds, OVERFLOW_ROW, OWN_ROW, RowIndex, NO_ROW } from "./row-index.ts";
import { OVERFLOW_SUBJECT } from "./row-store.ts";
import { SAVED_WINDOW_MIN_MS, type SavedCounter } from "./saved-counter.ts";

export type MemoryOptions = {
  now: () => number;
  /** The places of all cells, and the leases that may be returned. */
  places: Ledger;
  leases: Ledger;
  bounds: Pick<CellBounds, "counters"> & Partial<CellBounds>;
};

const OVERFLOW_PER_CELL = 1_000;

type MemoryMetrics = {
  /** Rows of one subject each, and overflow rows that new subjects of a rule share once a bound is reached. */
  counters: number;
  overflow_counters: number;
  /** Environments of workspaces that have counters. */
  cells: number;
  leases: number;
  /** Rows waiting to be saved. */
  dirty: number;
  /**
   * Since the start: rule lookups that got an overflow row, or none (refused); rows freed after and before they
   * expired.
   */
  overflowed_total: number;
  refused_total: number;
  lapsed_total: number;
  evicted_total: number;
};

export class MemoryCounter implements Counter {
  readonly #index: RowIndex;
  readonly #leases: LeaseTable;
  readonly #dirty: DirtyRows;
  readonly #clock: () => number;
  #now = 0;
  // One entry per rule of the current request; reused, because nothing interrupts a check.
  readonly #slots: number[] = [];
  readonly #spans: number[] = [];
  readonly #used: number[] = [];
  readonly #waits: number[] = [];

  constructor(options: MemoryOptions) {
    this.#clock = options.now;
    const bounds = { overflow: OVERFLOW_PER_CELL, ...options.bounds };
    this.#index = new RowIndex(options.places, bounds, (slot) => this.#dirty.touch(slot));
    this.#dirty = new DirtyRows(this.#index);
    this.#leases = new LeaseTable(options.leases);
  }

  check(request: CheckRequest): Verdict {
    const { cost, limits } = request;
    const now = this.#tick();
    const allowed = this.#evaluate(request, cost === 0 ? 1 : cost, cost === 0, now);
    if (allowed && cost > 0) {
      for (let i = 0; i < limits.length; i++) this.#charge(request, i, this.#spans[i]!, cost);
    }
    return verdictOf("memory", limits, this.#waits, this.#policies(limits, now));
  }

  lease(request: LeaseRequest): Lease {
    const { limits } = request;
    const now = this.#tick();
    this.#evaluate(request, 1, false, now);
    let granted = request.want;
    for (let i = 0; i < limits.length; i++) {
      granted = Math.min(granted, this.#waits[i]! > 0 ? 0 : limits[i]!.limit - this.#used[i]!);
    }
    if (granted <= 0) {
      const policies = this.#policies(limits, now);
      return { granted: 0, lease_id: null, expires_in_ms: 0, store: "memory", policies };
    }
    const end = leaseEnd(limits, now);
    const spans = limits.map((limit) => leaseSpan(limit, now, end));
    for (let i = 0; i < limits.length; i++) this.#charge(request, i, spans[i]!, granted);
    const lease_id = randomUUID();
    const booked = limits.map((limit, i) => this.#booking(request, limit, this.#slots[i]!, spans[i]!));
    const { owner } = booked[0]!.rule.cell;
    this.#leases.put(owner, request.workspace_id, lease_id, { granted, end, booked }, now);
    return { granted, lease_id, expires_in_ms: end - now, store: "memory", policies: this.#policies(limits, now) };
  }

  holdsLease(workspace_id: string, lease_id: string): boolean {
    return this.#leases.has(workspace_id, lease_id);
  }

  #booking(request: Subject, limit: RateLimit, slot: number, span: number): HeldLease["booked"][number] {
    const rule = this.#index.store.ruleOf(slot);
    const subject = rule.overflow === slot ? OVERFLOW_SUBJECT : subjectOf(request, limit);
    return { slot, span, rule, subject };
  }

  /** Units of a row that was evicted stay charged, in its rule's overflow row. */
  returnLease(workspace_id: string, lease_id: string, unused: number): number {
    const held = this.#leases.take(workspace_id, lease_id, this.#tick());
    if (held === null) return 0;
    const { store } = this.#index;
    const units = Math.max(0, Math.min(unused, held.granted));
    for (const { slot, span, rule, subject } of held.booked) {
      if (rule.rows === 0 || store.rowOf(rule, subject) !== slot) continue;
      store.rows.remove(slot, span, units);
      this.#dirty.touch(slot);
    }
    return units;
  }

  /** Up to `max` changed counters to save, cell by cell in turn. If saving fails, pass them to `requeue`. */
  dirtyRows(max: number, minWindowMs?: number): SavedCounter[] {
    return this.#dirty.take(max, minWindowMs);
  }

  requeue(rows: Iterable<SavedCounter>): void {
    this.#dirty.requeue(rows);
  }

  /**
   * Loads what an earlier run saved; once, at the start, in pages of any order. Returns how many counters still had
   * units.
   */
  load(rows: Iterable<SavedCounter>, options?: LoadOptions): number {
    return this.#dirty.load(rows, this.#tick(), options);
  }

  /** Cells with changed counters. */
  get dirtyCells(): number {
    return this.#dirty.cells;
  }

  metrics(): MemoryMetrics {
    const { store, overflowed, refused, lapsed, evicted } = this.#index;
    return {
      counters: store.counters,
      overflow_counters: store.overflow,
      cells: store.cells.size,
      leases: this.#leases.size,
      dirty: this.#dirty.size,
      overflowed_total: overflowed,
      refused_total: refused,
      lapsed_total: lapsed,
      evicted_total: evicted,
    };
  }

  close(): void {}

  /** Whole milliseconds that never run backwards: a row's ring cannot hold units far ahead of its clock. */
  #tick(): number {
    this.#now = Math.max(this.#now, Math.floor(this.#clock()));
    return this.#now;
  }

  /** Fills the scratch columns with the state of each rule; true when all of them allow `need` units. */
  #evaluate(request: Subject & { limits: readonly RateLimit[] }, need: number, isPeek: boolean, now: number): boolean {
    const { limits } = request;
    const { rows } = this.#index.store;
    let allowed = true;
    this.#index.begin(this.#slots);
    for (let i = 0; i < limits.length; i++) {
      const limit = limits[i]!;
      const span = spanAt(limit, now);
      const slot = this.#index.findSlot(request, limit, i, isPeek, now);
      const used = slot >= 0 ? rows.expireBefore(slot, oldestCounted(limit, span)) : 0;
      const wait = used + need <= limit.limit && slot !== NO_ROW ? 0 : this.#wait(limit, slot, used, need, now);
      if (wait > 0) allowed = false;
      this.#slots[i] = slot;
      this.#spans[i] = span;
      this.#used[i] = used;
      this.#waits[i] = wait;
    }
    return allowed;
  }

  #wait(limit: RateLimit, slot: number, used: number, need: number, now: number): number {
    if (need > limit.limit) return Infinity;
    if (slot === NO_ROW) return limit.window_ms;
    return lapsesAt(limit, this.#index.store.rows.spanFreeing(slot, used + need - limit.limit)) - now;
  }

  #charge(request: Subject & { limits: readonly RateLimit[] }, i: number, span: number, units: number): void {
    const limit = request.limits[i]!;
    let slot = this.#slots[i]!;
    if (slot === OWN_ROW || slot === OVERFLOW_ROW) {
      slot = this.#index.open(slot, request, limit);
      this.#slots[i] = slot;
    }
    this.#index.store.rows.add(slot, span, units);
    this.#used[i] = this.#used[i]! + units;
    if (limit.window_ms >= SAVED_WINDOW_MIN_MS) this.#dirty.touch(slot);
  }

  #policies(limits: readonly RateLimit[], now: number): RuleState[] {
    return limits.map((rule, i) => {
      const { id, limit, window_ms } = rule;
      const slot = this.#slots[i]!;
      if (slot === NO_ROW) return { id, limit, window_ms, remaining: 0, reset_ms: window_ms };
      const used = this.#used[i]!;
      const oldest = slot >= 0 ? this.#index.store.rows.oldest(slot) : 0;
      return {
        id,
        limit,
        window_ms,
        remaining: remainingOf(limit, used),
        reset_ms: resetMs(rule, now, used, oldest),
      };
    });
  }
}
