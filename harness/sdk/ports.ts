// Ports with a manual clock: timers fire only when the test advances time. The network is real.

import { EventEmitter, once } from "node:events";
import { LIMITS_TIMEOUT_MS } from "../../src/sdk/limits/check.ts";
import { defaultPorts, type Ports } from "../../src/sdk/runtime.ts";
import { DEADLINE_MS } from "../waiting.ts";

type Timer = { at: number; task: () => void };

export class ManualPorts implements Ports {
  wall = Date.parse("2026-11-15T12:00:00.000Z");
  mono = 1000;
  /** The value of random(); set by tests. */
  randomValue = 0.5;
  fetch = defaultPorts().fetch;
  readonly #timers = new Set<Timer>();
  readonly #watches = new Set<() => void>();
  readonly #events = new EventEmitter();

  readonly now = () => this.wall;
  readonly elapsed = () => this.mono;
  readonly random = () => this.randomValue;
  readonly after = (ms: number, task: () => void) => {
    const timer = { at: this.mono + ms, task };
    this.#timers.add(timer);
    this.#events.emit("scheduled");
    return () => void this.#timers.delete(timer);
  };

  /** Runs `task` once per advance, however far: enough for a task that only reads the clock. */
  readonly every = (_ms: number, task: () => void) => {
    this.#watches.add(task);
    return () => void this.#watches.delete(task);
  };

  /** Milliseconds until each waiting timer, nearest first. */
  get waiting(): number[] {
    return [...this.#timers].map(({ at }) => at - this.mono).toSorted((a, b) => a - b);
  }

  /** Advances both clocks and runs the due timers in order. */
  advance(ms: number): void {
    const until = this.mono + ms;
    for (;;) {
      const due = [...this.#timers].filter(({ at }) => at <= until).toSorted((a, b) => a.at - b.at)[0];
      if (!due) break;
      this.#move(Math.max(0, due.at - this.mono));
      this.#timers.delete(due);
      due.task();
    }
    this.#move(until - this.mono);
    for (const watch of this.#watches) watch();
  }

  /** Moves only the wall clock: a suspended machine, or a clock that was set. */
  setWall(ms: number): void {
    this.wall += ms;
    for (const watch of this.#watches) watch();
  }

  /** Resolves with the delay of a pending timer once there is one between `min` and `max` milliseconds away. */
  async timer(min: number, max: number): Promise<number> {
    for (;;) {
      const found = this.waiting.find((ms) => ms >= min && ms <= max);
      if (found !== undefined) return found;
      await once(this.#events, "scheduled");
    }
  }

  #move(ms: number): void {
    this.mono += ms;
    this.wall += ms;
  }
}

/** Real ports with a long timeout of rate limits instead of 250 ms, which a busy machine exceeds. */
export function patientPorts(): Ports {
  const real = defaultPorts();
  const after: Ports["after"] = (ms, task, keeps) =>
    real.after(ms === LIMITS_TIMEOUT_MS ? DEADLINE_MS : ms, task, keeps);
  return { ...real, after };
}
