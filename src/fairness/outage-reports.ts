// Reports when something on which this process depends fails and when it works again, for the log: at most once a
// minute each, however often it fails.
import { MINUTE_MS } from "../kernel/durations.ts";

/** Called with the reason of an outage, or with null at its end. */
export type OnOutage<Reason> = (reason: Reason | null) => void;

export class OutageReports<Reason> {
  readonly #report: OnOutage<Reason>;
  readonly #now: () => number;
  #isReported = false;
  #reportedAt = -Infinity;

  constructor(report: OnOutage<Reason>, now = () => performance.now()) {
    this.#report = report;
    this.#now = now;
  }

  /** An outage that begins within a minute of the last one is reported by a failure after that minute. */
  failed(reason: Reason): void {
    const now = this.#now();
    if (this.#isReported || now - this.#reportedAt < MINUTE_MS) return;
    this.#isReported = true;
    this.#reportedAt = now;
    this.#report(reason);
  }

  recovered(): void {
    if (!this.#isReported) return;
    this.#isReported = false;
    this.#report(null);
  }
}
