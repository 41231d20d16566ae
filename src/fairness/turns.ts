// Turns of the event loop. Within one turn an owner runs what it has ready at once for a slice of measured time; what
// exceeds that runs in rounds, a slice for each owner that waits, and sockets are read between two rounds; a round with
// many owners is cut. So a flood of one owner delays another's work by a slice or two. While only one owner has sent
// requests lately its slice is longer, because the queue costs a twentieth of a request. bench: ratelimit/check
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
const LANES_MIN = 1_024;
/** How long an owner counts as active after a request. */
const ACTIVE_MS = 10_000;

type Work = () => void;
type Lane = {
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
  readonly #lanes = new Map<string, Lane>();
  readonly #waiting = new Set<Lane>();
  #lanesMax = LANES_MIN;
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
    const lane = this.#lanes.get(owner.id) ?? this.#open(owner, began);
    this.#refill(lane, began);
    if (this.#running || lane.leftMs <= 0 || lane.waiting.length > 0) return this.#wait(lane, work);
    this.#execute(lane, work, began);
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

  #refill(lane: Lane, now: number): void {
    if (lane.turn === this.#turn) return;
    if (now >= this.#sharedUntil) lane.leftMs = ALONE_MS;
    else lane.leftMs = Math.min(SLICE_MS, lane.leftMs + (now - lane.at) * PART);
    lane.at = now;
    lane.turn = this.#turn;
  }

  /** Whether work of this owner would have to wait for a round. */
  mustWait({ id }: Owner): boolean {
    const lane = this.#lanes.get(id);
    if (!lane) return false;
    this.#refill(lane, this.#now());
    return lane.leftMs <= 0 || lane.waiting.length > 0;
  }

  /** Charges time that was spent on the owner's behalf outside of `run`. */
  charge(owner: Owner, ms: number): void {
    const lane = this.#lanes.get(owner.id);
    if (lane) lane.leftMs -= ms;
  }

  #open(owner: Owner, at: number): Lane {
    if (this.#lanes.size >= this.#lanesMax) this.#forgetIdle(at);
    const lane = { owner, leftMs: SLICE_MS, at, turn: -1, waiting: [] };
    this.#lanes.set(owner.id, lane);
    return lane;
  }

  #forgetIdle(now: number): void {
    for (const [id, lane] of this.#lanes) {
      this.#refill(lane, now);
      if (lane.leftMs >= SLICE_MS && lane.waiting.length === 0) this.#lanes.delete(id);
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
    const began = this.#now();
    let lanes = this.#waiting.size;
    for (const lane of this.#waiting) {
      if (lanes-- === 0 || this.#now() - began >= ROUND_MS) break;
      lane.leftMs = Math.min(SLICE_MS, lane.leftMs + SLICE_MS);
      while (lane.leftMs > 0) {
        const next = lane.waiting.shift();
        if (!next) break;
        this.#ledger.release(lane.owner);
        this.#execute(lane, next, this.#now());
      }
      this.#waiting.delete(lane);
      if (lane.waiting.length > 0) this.#waiting.add(lane); // behind all others
    }
    if (this.#waiting.size > 0) setImmediate(() => this.#round());
  }
}
