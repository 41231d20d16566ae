// Whether the counters respond, for both limiters. While they time out, requests are admitted at once instead of after
// 250 ms each, and ten calls a second find out whether they are back. Failures are logged at the first one and then
// once a minute: without counters no limit is enforced, so the vendor must see it, but not once for each request.

import { MINUTE_MS } from "../../kernel/durations.ts";
import { CallError, type Runtime } from "../client.ts";

/** Timeouts in a row, which are 1.25 s. Less may be a pause of this process or of the control plane. */
const TIMEOUTS = 5;
const PROBE_MS = 100;

export class Reachability {
  readonly #runtime: Runtime;
  #timeouts = 0;
  #countedAt = Number.NEGATIVE_INFINITY;
  #probeAt = 0;
  #failures = 0;
  #loggedAt = Number.NEGATIVE_INFINITY;

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  /** The last call had no response in time. */
  get isSlow(): boolean {
    return this.#timeouts > 0;
  }

  /** False: treat the counters as unreachable without a call. */
  mayCall(): boolean {
    if (this.#timeouts < TIMEOUTS) return true;
    const now = this.#runtime.ports.elapsed();
    if (now < this.#probeAt) return false;
    this.#probeAt = now + PROBE_MS;
    return true;
  }

  succeeded(): void {
    this.#timeouts = 0;
  }

  /** Calls that were in flight together count as one timeout, however many there are. */
  failed(error: unknown, sentAt: number): void {
    const { ports, log } = this.#runtime;
    const now = ports.elapsed();
    const isTimeout = error instanceof CallError && error.fault === "timeout";
    if (!isTimeout) this.#timeouts = 0;
    else if (sentAt >= this.#countedAt) {
      this.#timeouts++;
      this.#countedAt = now;
      this.#probeAt = now + PROBE_MS;
    }
    this.#failures++;
    if (now - this.#loggedAt < MINUTE_MS) return;
    const why = error instanceof Error ? error.message : "unknown";
    log("warn", "rate limits cannot be checked; requests are admitted", { why, failures: this.#failures });
    this.#loggedAt = now;
    this.#failures = 0;
  }
}
