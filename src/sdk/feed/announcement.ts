// What this library enforces, as announced to the policy feed with every call: the server gives a node only keys that
// it can enforce completely. A server of an earlier release refuses the parameter. Then it is left out for some minutes
// and tried again, so that the node catches up after the server's upgrade without a restart.

import type { Log, Ports } from "../runtime.ts";
import { MINUTE_MS } from "../../kernel/durations.ts";

/** Sorted and joined by commas. Caution: add a capability only when the library enforces it completely. */
const ENFORCED = "cidr,disabled,formats,quotas";
const RETRY_MS = 5 * MINUTE_MS;

export class Announcement {
  readonly #ports: Ports;
  readonly #log: Log;
  #refusedUntil = 0;
  #logged = false;

  constructor(ports: Ports, log: Log) {
    this.#ports = ports;
    this.#log = log;
  }

  /** What to announce now: empty while the server refuses it. */
  current(): string {
    return this.#ports.elapsed() < this.#refusedUntil ? "" : ENFORCED;
  }

  /** The server accepted a call only without it. */
  refused(): void {
    this.#refusedUntil = this.#ports.elapsed() + RETRY_MS * (0.75 + this.#ports.random() / 2);
    if (this.#logged) return;
    this.#logged = true;
    this.#log("info", "the server is of an earlier release: it does not know what this library enforces", {});
  }
}
