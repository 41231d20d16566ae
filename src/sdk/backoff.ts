// Exponential back-off with jitter, for calls that are repeated until they succeed.

import type { Ports } from "./runtime.ts";
import { MINUTE_MS } from "../kernel/durations.ts";

const RETRY_AFTER_MAX_MS = MINUTE_MS;

export class Backoff {
  readonly #ports: Ports;
  readonly #minMs: number;
  readonly #maxMs: number;
  /** Consecutive failures since the last success. */
  failures = 0;
  /** Delay until the next attempt. */
  delayMs = 0;

  /** The first delay is at most `minMs`; later ones double up to `maxMs`. */
  constructor(ports: Ports, minMs: number, maxMs: number) {
    this.#ports = ports;
    this.#minMs = minMs;
    this.#maxMs = maxMs;
  }

  /** `retryAfterMs`: how long the server asks to wait; 0 if it does not. */
  fail(retryAfterMs: number): void {
    const longest = Math.min(this.#maxMs, this.#minMs * 2 ** this.failures++);
    const requested = Math.min(retryAfterMs, RETRY_AFTER_MAX_MS);
    this.delayMs = Math.max(requested, longest * (0.5 + this.#ports.random() / 2));
  }

  succeed(): void {
    this.failures = 0;
  }

  get shouldLog(): boolean {
    return shouldLog(this.failures);
  }
}

/** True for the first failure in a row and each power of two, so that a long outage does not flood the log. */
export function shouldLog(failures: number): boolean {
  return (failures & (failures - 1)) === 0;
}
