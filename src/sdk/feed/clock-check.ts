// Warns when this machine's clock differs from the server's: keys expire by the clock of the machine that verifies.
// The server responds between the start and the end of a call, so a long poll's wait, a slow network and a suspended
// machine are no difference.

import { HOUR_MS, MINUTE_MS } from "../../kernel/durations.ts";
import type { Reply } from "../client.ts";
import type { Log, Ports } from "../runtime.ts";

export class ClockCheck {
  readonly #ports: Ports;
  readonly #log: Log;
  #loggedAt = Number.NEGATIVE_INFINITY;

  constructor(ports: Ports, log: Log) {
    this.#ports = ports;
    this.#log = log;
  }

  /** Resolves or rejects as the call that has just begun. */
  async check(call: Promise<Reply>): Promise<Reply> {
    const sentAt = this.#ports.now();
    const reply = await call;
    this.#compare(reply, sentAt);
    return reply;
  }

  #compare({ date }: Reply, sentAt: number): void {
    const behindMs = date - Math.max(sentAt, this.#ports.now());
    const aheadMs = Math.min(sentAt, this.#ports.now()) - date;
    // Not a number without a date.
    if (!(Math.max(behindMs, aheadMs) > MINUTE_MS)) return;
    const elapsed = this.#ports.elapsed();
    if (elapsed - this.#loggedAt < HOUR_MS) return;
    this.#loggedAt = elapsed;
    const what =
      behindMs > 0 ? "behind the server's: keys expire too late" : "ahead of the server's: keys expire too early";
    const seconds = Math.round(Math.max(behindMs, aheadMs) / 1000);
    this.#log("warn", `this machine's clock is ${what}`, { seconds });
  }
}
