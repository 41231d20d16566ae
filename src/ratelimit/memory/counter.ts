// The in-process counter store: exact within this process, bounded in memory, synchronous, without I/O.
// docs/design/0005-rate-limiter-algorithm.md, docs/design/0012-counters-and-leases.md. bench: limiter/check
// Caution: a check evaluates every rule before it charges any (all or nothing), so between `#evaluate` and `#charge`
// nothing may run that moves the clock or the rows.
import { randomUUID } from "node:crypto";
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
  type PolicyState,
  type Subject,
  type Verdict,
  verdictOf,
} from "../counter.ts";
import { DirtyRows } from "./dirty-rows.ts";
import { LeaseTable } from "./leases.ts";
import { BOUNDS, type Bounds, OVERFLOW_ROW, OWN_ROW, RowIndex, NO_ROW } from "./row-index.ts";
import { SAVED_WINDOW_MIN_MS, type SavedCounter } from "./saved-counter.ts";

export type MemoryOptions = { now: () => number; bounds?: Partial<Bounds> };

export type MemoryMetrics = {
  /** Rows of one subject each, and overflow rows that new subjects of a rule share once a bound is reached. */
  counters: number;
  overflow_counters: number;
  workspaces: number;
  leases: number;
  /** Rows waiting to be saved. */
  dirty: number;
  /** Since the start: rule lookups that got an overflow row, or none (refused); expired rows that were freed. */
  overflowed_total: number;
  refused_total: number;
  lapsed_total: number;
};

export class MemoryCounter implements Counter {
  readonly #index: RowIndex;
  readonly #leases = new LeaseTable();
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
    this.#index = new RowIndex({ ...BOUNDS, ...options.bounds });
    this.#dirty = new DirtyRows(this.#index);
  }

  check(request: CheckRequest): Verdict {
    const { cost, limits } = request;
    const now = this.#tick();
    const allowed = this.#evaluate(request, cost === 0 ? 1 : cost, now);
    if (allowed && cost > 0) {
      for (let i = 0; i < limits.length; i++) this.#charge(request, i, this.#spans[i]!, cost, now);
    }
    return verdictOf("memory", limits, this.#waits, this.#policies(limits, now));
  }

  lease(request: LeaseRequest): Lease {
    const { limits } = request;
    const now = this.#tick();
    this.#evaluate(request, 1, now);
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
    for (let i = 0; i < limits.length; i++) this.#charge(request, i, spans[i]!, granted, now);
    const lease_id = randomUUID();
    const slots = this.#slots.slice(0, limits.length);
    this.#leases.put(request.workspace_id, lease_id, { granted, end, slots, spans }, now);
    return { granted, lease_id, expires_in_ms: end - now, store: "memory", policies: this.#policies(limits, now) };
  }

  holdsLease(workspace_id: string, lease_id: string): boolean {
    return this.#leases.has(workspace_id, lease_id);
  }

  /** The rows of a live lease cannot have been freed: they hold its units until a window after its end. */
  returnLease(workspace_id: string, lease_id: string, unused: number): number {
    const held = this.#leases.take(workspace_id, lease_id, this.#tick());
    if (held === null) return 0;
    const units = Math.max(0, Math.min(unused, held.granted));
    for (const [i, slot] of held.slots.entries()) {
      this.#index.rows.remove(slot, held.spans[i]!, units);
      if (this.#index.ruleOf(slot)!.window_ms >= SAVED_WINDOW_MIN_MS) this.#dirty.touch(slot);
    }
    return units;
  }

  /** Up to `max` changed counters to save, oldest change first. If saving fails, pass them to `requeue`. */
  dirtyRows(max: number): SavedCounter[] {
    return this.#dirty.take(max);
  }

  requeue(rows: Iterable<SavedCounter>): void {
    this.#dirty.requeue(rows);
  }

  /** Every counter that is saved between runs, changed or not. */
  allRows(): Generator<SavedCounter> {
    return this.#dirty.allRows();
  }

  /** Loads what an earlier run saved; once, at the start. Returns how many counters still had units. */
  load(rows: Iterable<SavedCounter>): number {
    return this.#dirty.load(rows, this.#tick());
  }

  metrics(): MemoryMetrics {
    const { counters, overflow, workspaces, overflowed, refused, lapsed } = this.#index;
    return {
      counters,
      overflow_counters: overflow,
      workspaces,
      leases: this.#leases.size,
      dirty: this.#dirty.size,
      overflowed_total: overflowed,
      refused_total: refused,
      lapsed_total: lapsed,
    };
  }

  close(): void {}

  /** Whole milliseconds that never run backwards: a row's ring cannot hold units far ahead of its clock. */
  #tick(): number {
    this.#now = Math.max(this.#now, Math.floor(this.#clock()));
    return this.#now;
  }

  /** Fills the scratch columns with the state of each rule; true when all of them allow `need` units. */
  #evaluate(request: Subject & { limits: readonly RateLimit[] }, need: number, now: number): boolean {
    const { limits } = request;
    const { rows } = this.#index;
    let planned = 0;
    let allowed = true;
    for (let i = 0; i < limits.length; i++) {
      const limit = limits[i]!;
      const span = spanAt(limit, now);
      const slot = this.#index.findSlot(request, limit, planned, now);
      const used = slot >= 0 ? rows.expireBefore(slot, oldestCounted(limit, span)) : 0;
      // An expired row must outlive this request: a later rule of it may start a sweep.
      if (used === 0 && slot >= 0) rows.keepUntil(slot, now + 1);
      const wait = used + need <= limit.limit && slot !== NO_ROW ? 0 : this.#wait(limit, slot, used, need, now);
      if (slot === OWN_ROW) planned++;
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
    return lapsesAt(limit, this.#index.rows.spanFreeing(slot, used + need - limit.limit)) - now;
  }

  #charge(request: Subject & { limits: readonly RateLimit[] }, i: number, span: number, units: number, now: number) {
    const limit = request.limits[i]!;
    const { rows } = this.#index;
    let slot = this.#slots[i]!;
    if (slot === OWN_ROW || slot === OVERFLOW_ROW) {
      slot = this.#index.open(slot, request, limit, now, lapsesAt(limit, span));
      this.#slots[i] = slot;
    }
    if (rows.add(slot, span, units)) rows.keepUntil(slot, lapsesAt(limit, span));
    this.#used[i] = this.#used[i]! + units;
    if (limit.window_ms >= SAVED_WINDOW_MIN_MS) this.#dirty.touch(slot);
  }

  #policies(limits: readonly RateLimit[], now: number): PolicyState[] {
    return limits.map((rule, i) => {
      const { id, limit, window_ms } = rule;
      const slot = this.#slots[i]!;
      if (slot === NO_ROW) return { id, limit, window_ms, remaining: 0, reset_ms: window_ms };
      const used = this.#used[i]!;
      const oldest = slot >= 0 ? this.#index.rows.oldest(slot) : 0;
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
