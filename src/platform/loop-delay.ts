// How late a timer fires, as a histogram that is never reset: whatever blocks the event loop delays every request by as
// much.
import { Histogram } from "../kernel/exposition.ts";

const TICK_MS = 5;
const BUCKETS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5];

export class LoopDelay {
  readonly seconds = new Histogram(BUCKETS);
  readonly #timer: NodeJS.Timeout;

  constructor(now: () => number = () => performance.now()) {
    let last = now();
    this.#timer = setInterval(() => {
      const at = now();
      this.seconds.observe(Math.max(0, at - last - TICK_MS) / 1_000);
      last = at;
    }, TICK_MS);
    this.#timer.unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
