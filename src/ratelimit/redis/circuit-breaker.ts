// The circuit breaker in front of Redis: opens after five failures within ten seconds, or a failed probe; then no
// request waits for Redis.
// A request never probes whether Redis is back: it only starts a probe when one is due.
const FAILURES_MAX = 5;
const WITHIN_MS = 10_000;
const PROBE_EVERY_MS = 500;

export class CircuitBreaker {
  readonly #now: () => number;
  #failures: number[] = [];
  #open = false;
  #probeAt = 0;
  opened = 0;

  constructor(now: () => number) {
    this.#now = now;
  }

  get open(): boolean {
    return this.#open;
  }

  fail(): void {
    const now = this.#now();
    this.#failures = [...this.#failures.filter((at) => at > now - WITHIN_MS), now].slice(-FAILURES_MAX);
    if (this.#failures.length === FAILURES_MAX) this.trip();
  }

  /** Opens at once, after a failed probe. */
  trip(): void {
    if (this.#open) return;
    this.#open = true;
    this.opened++;
    this.#probeAt = this.#now() + PROBE_EVERY_MS;
  }

  close(): void {
    this.#open = false;
    this.#failures = [];
  }

  /** True for one caller every PROBE_EVERY_MS while open: it should start a probe and not wait for it. */
  shouldProbe(): boolean {
    const now = this.#now();
    if (!this.#open || now < this.#probeAt) return false;
    this.#probeAt = now + PROBE_EVERY_MS;
    return true;
  }
}
