// A clock that starts in the past: a demonstration simulates its days in seconds, so that records have the right age
// and every timestamp is made by the usual code.
import { createClock, type Clock } from "../../domain/core/clock.ts";
import { DAY_MS } from "../../kernel/durations.ts";

export class DemoClock implements Clock {
  readonly #real = createClock();
  #behindMs = 0;

  constructor(daysAgo: number) {
    this.goTo(daysAgo);
  }

  now(): number {
    return this.#real.now() - this.#behindMs;
  }

  steady(): number {
    return this.#real.steady() - this.#behindMs;
  }

  setBack(ms: number): void {
    this.#real.setBack(ms);
  }

  /** Only forward: the audit log has one order. */
  goTo(daysAgo: number): void {
    this.#behindMs = daysAgo * DAY_MS;
  }
}
