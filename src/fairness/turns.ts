// Turns of the event loop. An owner that uses less than half of the loop's time runs what it has ready at once; what exceeds
// that runs in rounds, a slice of measured time for each owner that waits, and sockets are read between two rounds. So a
// flood of one owner delays another's work by a slice or two. bench: ratelimit/check
import type { Ledger } from "./ledger.ts";
import type { Owner } from "./owners.ts";

const SLICE_MS = 1;
/** Of the time that passes, what an owner may use without waiting for a round. */
const PART = 0.5;
const LANES_MIN = 1_024;

type Work = () => void;
type Lane = {
  readonly owner: Owner;
  /** What it may still use at once; below 0 where its last work took longer, which costs it the next rounds. */
  leftMs: number;
  /** When `leftMs` was last brought up to date. */
  at: number;
  readonly waiting: Work[];
};

export class Turns {
  readonly #ledger: Ledger;
  readonly #now: () => number;
  readonly #lanes = new Map<string, Lane>();
  readonly #waiting = new Set<Lane>();
  #lanesMax = LANES_MIN;
  #running = false;

  constructor(ledger: Ledger, now: () => number = () => performance.now()) {
    this.#ledger = ledger;
    this.#now = now;
  }

  /** Runs the work now or in a later round. Work of one owner runs in order. It must not throw. */
  run(owner: Owner, work: Work): void {
    const began = this.#now();
    const lane = this.#lanes.get(owner.id) ?? this.#open(owner, began);
    refill(lane, began);
    if (this.#running || lane.leftMs <= 0 || lane.waiting.length > 0) return this.#wait(lane, work);
    this.#execute(lane, work, began);
  }

  #open(owner: Owner, at: number): Lane {
    if (this.#lanes.size >= this.#lanesMax) this.#forgetIdle(at);
    const lane = { owner, leftMs: SLICE_MS, at, waiting: [] };
    this.#lanes.set(owner.id, lane);
    return lane;
  }

  #forgetIdle(now: number): void {
    for (const [id, lane] of this.#lanes) {
      refill(lane, now);
      if (lane.leftMs === SLICE_MS && lane.waiting.length === 0) this.#lanes.delete(id);
    }
    this.#lanesMax = Math.max(LANES_MIN, 2 * this.#lanes.size);
  }

  #wait(lane: Lane, work: Work): void {
    this.#ledger.take(lane.owner);
    lane.waiting.push(work);
    if (this.#waiting.size === 0) setImmediate(() => this.#round());
    this.#waiting.add(lane);
  }

  #execute(lane: Lane, work: Work, began: number): void {
    this.#running = true;
    try {
      work();
    } finally {
      this.#running = false;
      lane.leftMs -= this.#now() - began;
    }
  }

  #round(): void {
    for (const lane of this.#waiting) {
      lane.leftMs = Math.min(SLICE_MS, lane.leftMs + SLICE_MS);
      while (lane.leftMs > 0) {
        const next = lane.waiting.shift();
        if (!next) break;
        this.#ledger.release(lane.owner);
        this.#execute(lane, next, this.#now());
      }
      if (lane.waiting.length === 0) this.#waiting.delete(lane);
    }
    if (this.#waiting.size > 0) setImmediate(() => this.#round());
  }
}

function refill(lane: Lane, now: number): void {
  lane.leftMs = Math.min(SLICE_MS, lane.leftMs + (now - lane.at) * PART);
  lane.at = now;
}
