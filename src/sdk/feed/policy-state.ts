// The policy in force and how old it is. Two clocks say so and the older answer wins: timers, which count on when somebody
// sets the wall clock back, and a look at the wall clock each second, which also counts the hours a machine slept.
// Asking costs two fields: a clock on every decision would cost as much as finding the key.

import type { Policy } from "../../kernel/policy/policy.ts";
import type { Settings } from "../options.ts";
import type { Ports } from "../runtime.ts";

const WATCH_MS = 1000;

export class PolicyState {
  policy: Policy | null = null;
  /** Wall time at which the control plane last confirmed it. */
  confirmedAt = 0;
  /** Older than staleMs, or there is none. */
  degraded = true;
  readonly #settings: Settings;
  readonly #ports: Ports;
  #dead = true;
  #cancel: (() => void)[] = [];

  constructor(settings: Settings, ports: Ports) {
    this.#settings = settings;
    this.#ports = ports;
  }

  /** The policy that may decide now, or null when there is none or it is too old. */
  current(): Policy | null {
    return this.#dead ? null : this.policy;
  }

  /** A policy that was right `ageMs` ago: 0 from the feed, more from a file. */
  confirm(policy: Policy, ageMs = 0): void {
    const { staleMs, maxStaleMs } = this.#settings;
    this.stop();
    this.policy = policy;
    this.confirmedAt = this.#ports.now() - ageMs;
    this.degraded = ageMs > staleMs;
    this.#dead = ageMs > maxStaleMs;
    this.#cancel = [
      this.#ports.after(staleMs - ageMs + 1, () => (this.degraded = true)),
      this.#ports.after(maxStaleMs - ageMs + 1, () => (this.#dead = true)),
      this.#ports.every(WATCH_MS, () => this.#watch()),
    ];
  }

  stop(): void {
    for (const cancel of this.#cancel) cancel();
    this.#cancel = [];
  }

  #watch(): void {
    const age = this.#ports.now() - this.confirmedAt;
    this.degraded ||= age > this.#settings.staleMs;
    this.#dead ||= age > this.#settings.maxStaleMs;
  }
}
