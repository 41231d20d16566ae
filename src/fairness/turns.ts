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
/** From this much over its owner's slice, indivisible work puts the owner in debt. */
const DEBT_MS = 0.5;
/**
 * Share of elapsed time that the large bodies of an owner in debt may use. While others are active, time pays the debt.
 * An idle event loop runs thousands of rounds a second: if rounds paid it, large bodies would run back to back and
 * delay other owners.
 */
const DEBT_PART = 0.1;
/** Maximum debt of a large body: it is measured by the clock, which counts other processes of the machine too. */
const DEBT_MAX_MS = 50;
const BUDGETS_MIN = 1_024;
/** How long an owner counts as active after a request. */
const ACTIVE_MS = 10_000;

type Work = () => void;
/**
 * Large bodies have a budget of their own: other requests of their owner do not wait for its debt. An unchecked request
 * uses the turns of its network and may turn out to have a valid credential: `noteActive` then counts whose it was.
 */
type Kind = "request" | "unchecked" | "body";
type TimeBudget = {
  readonly owner: Owner;
  /** Time it may still use without waiting; negative after work that took longer, which costs it later rounds. */
  leftMs: number;
  /** When `leftMs` was last refilled, and in which turn of the event loop: at most once per turn. */
  at: number;
  turn: number;
  readonly waiting: Work[];
  readonly paysWithTime: boolean;
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

  /** Runs the work now or in a later round. Work of one owner and kind runs in order. It must not throw. */
  run(owner: Owner, work: Work, kind: Kind = "request"): void {
    const began = this.#now();
    this.#countTurn();
    if (kind !== "unchecked") this.noteActive(owner, began);
    const budget = this.#budgets.get(nameOf(owner, kind)) ?? this.#open(owner, kind, began);
    this.#refill(budget, began);
    if (this.#running || budget.leftMs <= 0 || budget.waiting.length > 0) return this.#wait(budget, work);
    this.#execute(budget, work, began);
  }

  /** Counts the owner as active from now on. */
  noteActive({ id }: Owner, now = this.#now()): void {
    if (id === this.#lastOwner) return;
    if (this.#lastOwner !== "") this.#sharedUntil = now + ACTIVE_MS;
    this.#lastOwner = id;
  }

  #countTurn(): void {
    if (this.#turnEnds) return;
    this.#turnEnds = true;
    setImmediate(() => {
      this.#turnEnds = false;
      this.#turn++;
    });
  }

  /** How long one piece of an owner's work may take: less while others are active. */
  get sliceMs(): number {
    return this.#sliceAt(this.#now());
  }

  #sliceAt(now: number): number {
    return now < this.#sharedUntil ? SLICE_MS : ALONE_MS;
  }

  #refill(budget: TimeBudget, now: number): void {
    if (budget.turn === this.#turn) return;
    budget.turn = this.#turn;
    if (now < this.#sharedUntil) return earn(budget, now);
    budget.leftMs = ALONE_MS;
    budget.at = now;
  }

  /** Whether work of this owner would have to wait for a round. */
  mustWait(owner: Owner, kind: Kind = "request"): boolean {
    const budget = this.#budgets.get(nameOf(owner, kind));
    if (!budget) return false;
    this.#refill(budget, this.#now());
    return budget.leftMs <= 0 || budget.waiting.length > 0;
  }

  /** Charges time that was spent on the owner's behalf outside of `run`. */
  charge(owner: Owner, ms: number, kind: Kind = "request"): void {
    const budget = this.#budgets.get(nameOf(owner, kind)) ?? this.#open(owner, kind, this.#now());
    budget.leftMs -= ms;
  }

  #open(owner: Owner, kind: Kind, at: number): TimeBudget {
    if (this.#budgets.size >= this.#budgetsMax) this.#forgetIdle(at);
    const budget = { owner, leftMs: SLICE_MS, at, turn: -1, waiting: [], paysWithTime: kind === "body" };
    this.#budgets.set(nameOf(owner, kind), budget);
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
      if (budget.paysWithTime) budget.leftMs = Math.max(budget.leftMs, -DEBT_MAX_MS);
    }
  }

  #round(): void {
    const began = this.#now();
    const slice = this.#sliceAt(began);
    let budgets = this.#waiting.size;
    for (const budget of this.#waiting) {
      if (budgets-- === 0 || this.#now() - began >= ROUND_MS) break;
      if (isInDebt(budget) && began < this.#sharedUntil) earn(budget, began);
      else budget.leftMs = Math.min(slice, budget.leftMs + slice);
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

function earn(budget: TimeBudget, now: number): void {
  const part = isInDebt(budget) ? DEBT_PART : PART;
  budget.leftMs = Math.min(SLICE_MS, budget.leftMs + (now - budget.at) * part);
  budget.at = now;
}

function isInDebt({ leftMs, paysWithTime }: TimeBudget): boolean {
  return paysWithTime && leftMs < -DEBT_MS;
}

function nameOf({ id }: Owner, kind: Kind): string {
  return kind === "body" ? `${id} body` : id;
}
