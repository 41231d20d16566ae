// Shares the event loop fairly. In each turn an owner may use one slice of measured time; further work is queued and
// runs in rounds, one slice per owner, with socket reads between rounds. A round with many owners is cut short. So a
// flood by one owner delays the others by a slice or two. While a single owner is active its slice is longer, because
// queueing costs time. bench: ratelimit/check
import type { Ledger } from "./ledger.ts";
import type { Owner } from "./owners.ts";

/** Short, because what follows from a request (its response, the next one of its connection) is not measured. */
const SLICE_MS = 0.25;
/** With one owner active. */
const ALONE_MS = 4;
/** Maximum duration of one round: an account may have many cells, and sockets are read only between rounds. */
const ROUND_MS = 1;
/** Share of elapsed time that an owner may use without waiting for a round. */
const PART = 0.5;
const BUDGETS_MIN = 1_024;
/** How long an owner counts as active after a request. */
const ACTIVE_MS = 10_000;

type Work = () => void;
type TimeBudget = {
  readonly owner: Owner;
  /** Time it may still use without waiting; negative after work that took longer, which costs it later rounds. */
  leftMs: number;
  /** When `leftMs` was last refilled, and in which turn of the event loop: at most once per turn. */
  at: number;
  turn: number;
  readonly waiting: Work[];
};

export class Turns {
  readonly #ledger: Ledger;
  readonly #now: () => number;
  readonly #budgets = new Map<string, TimeBudget>();
  readonly #waiting = new Set<TimeBudget>();
  #budgetsMax = BUDGETS_MIN;
  #running = false;
  #turn = 0;
  #turnEnds = false;
  #lastOwner = "";
  /** Until when more than one owner counts as active. */
  #sharedUntil = 0;

  constructor(ledger: Ledger, now: () => number = () => performance.now()) {
    this.#ledger = ledger;
    this.#now = now;
  }

  /** Runs the work now or in a later round. Work of one owner runs in order. It must not throw. */
  run(owner: Owner, work: Work): void {
    const began = this.#now();
    this.#noteActive(owner, began);
    const budget = this.#budgets.get(owner.id) ?? this.#open(owner, began);
    this.#refill(budget, began);
    if (this.#running || budget.leftMs <= 0 || budget.waiting.length > 0) return this.#wait(budget, work);
    this.#execute(budget, work, began);
  }

  #noteActive({ id }: Owner, now: number): void {
    if (id !== this.#lastOwner) {
      if (this.#lastOwner !== "") this.#sharedUntil = now + ACTIVE_MS;
      this.#lastOwner = id;
    }
    if (this.#turnEnds) return;
    this.#turnEnds = true;
    setImmediate(() => {
      this.#turnEnds = false;
      this.#turn++;
    });
  }

  #refill(budget: TimeBudget, now: number): void {
    if (budget.turn === this.#turn) return;
    if (now >= this.#sharedUntil) budget.leftMs = ALONE_MS;
    else budget.leftMs = Math.min(SLICE_MS, budget.leftMs + (now - budget.at) * PART);
    budget.at = now;
    budget.turn = this.#turn;
  }

  /** Whether work of this owner would have to wait for a round. */
  mustWait({ id }: Owner): boolean {
    const budget = this.#budgets.get(id);
    if (!budget) return false;
    this.#refill(budget, this.#now());
    return budget.leftMs <= 0 || budget.waiting.length > 0;
  }

  /** Charges time that was spent on the owner's behalf outside of `run`. */
  charge(owner: Owner, ms: number): void {
    const budget = this.#budgets.get(owner.id);
    if (budget) budget.leftMs -= ms;
  }

  #open(owner: Owner, at: number): TimeBudget {
    if (this.#budgets.size >= this.#budgetsMax) this.#forgetIdle(at);
    const budget = { owner, leftMs: SLICE_MS, at, turn: -1, waiting: [] };
    this.#budgets.set(owner.id, budget);
    return budget;
  }

  #forgetIdle(now: number): void {
    for (const [id, budget] of this.#budgets) {
      this.#refill(budget, now);
      if (budget.leftMs >= SLICE_MS && budget.waiting.length === 0) this.#budgets.delete(id);
    }
    this.#budgetsMax = Math.max(BUDGETS_MIN, 2 * this.#budgets.size);
  }

  #wait(budget: TimeBudget, work: Work): void {
    this.#ledger.take(budget.owner);
    budget.waiting.push(work);
    if (this.#waiting.size === 0) setImmediate(() => this.#round());
    this.#waiting.add(budget);
  }

  #execute(budget: TimeBudget, work: Work, began: number): void {
    this.#running = true;
    try {
      work();
    } finally {
      this.#running = false;
      budget.leftMs -= this.#now() - began;
    }
  }

  #round(): void {
    const began = this.#now();
    let budgets = this.#waiting.size;
    for (const budget of this.#waiting) {
      if (budgets-- === 0 || this.#now() - began >= ROUND_MS) break;
      budget.leftMs = Math.min(SLICE_MS, budget.leftMs + SLICE_MS);
      while (budget.leftMs > 0) {
        const next = budget.waiting.shift();
        if (!next) break;
        this.#ledger.release(budget.owner);
        this.#execute(budget, next, this.#now());
      }
      this.#waiting.delete(budget);
      if (budget.waiting.length > 0) this.#waiting.add(budget); // behind all others
    }
    if (this.#waiting.size > 0) setImmediate(() => this.#round());
  }
}
