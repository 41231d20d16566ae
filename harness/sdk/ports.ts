// Ports under a test's own clock: timers fire only when the test moves time. The network stays real.

import { EventEmitter, once } from "node:events";
import { LIMITS_TIMEOUT_MS } from "../../src/sdk/limits/check.ts";
import { defaultPorts, type Ports } from "../../src/sdk/runtime.ts";

type Timer = { at: number; task: () => void };

export class ManualPorts implements Ports {
  wall = Date.parse("2026-11-15T12:00:00.000Z");
  mono = 1000;
  /** Fixed chance: tests set it to what they need. */
  chance = 0.5;
  fetch = defaultPorts().fetch;
  readonly #timers = new Set<Timer>();
  readonly #watches = new Set<() => void>();
  readonly #events = new EventEmitter();

  readonly now = () => this.wall;
  readonly elapsed = () => this.mono;
  readonly random = () => this.chance;
  readonly after = (ms: number, task: () => void) => {
    const timer = { at: this.mono + ms, task };
    this.#timers.add(timer);
    this.#events.emit("scheduled");
    return () => void this.#timers.delete(timer);
  };

  /** A task that runs once in every move of time, however far: enough for one that only looks at the clock. */
  readonly every = (_ms: number, task: () => void) => {
    this.#watches.add(task);
    return () => void this.#watches.delete(task);
  };

  /** Milliseconds until each waiting timer, nearest first. */
  get waiting(): number[] {
    return [...this.#timers].map(({ at }) => at - this.mono).toSorted((a, b) => a - b);
  }

  /** Moves both clocks and runs what falls due, in order. */
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

  /** The wall clock alone: a machine that slept, or somebody who set it. */
  setWall(ms: number): void {
    this.wall += ms;
    for (const watch of this.#watches) watch();
  }

  /** Resolves when a timer between these many milliseconds away is waiting, and says how far. */
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

/** Real ports whose 250 ms for rate limits are ten seconds: on a busy machine that rule would decide in a test's place. */
export function patientPorts(): Ports {
  const real = defaultPorts();
  const after: Ports["after"] = (ms, task, keeps) => real.after(ms === LIMITS_TIMEOUT_MS ? 10_000 : ms, task, keeps);
  return { ...real, after };
}

/** Waits for a condition that other events bring about; fails by the test's own timeout. */
export async function waitUntil(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 2));
}
