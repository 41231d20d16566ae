// The policy in force and its age, by two clocks of which the older result wins: timers, which are not affected when
// the wall clock is set back, and the wall clock read every second, which includes the time a machine was suspended.
// `current` and `degraded` only read fields: a clock on every decision costs as much as the lookup.
// bench: verify/floor-1e5

import type { Policy } from "../../kernel/policy/policy.ts";
import type { Settings } from "../options.ts";
import type { Ports } from "../runtime.ts";

const WATCH_MS = 1000;

export class PolicyState {
  policy: Policy | null = null;
  /** Wall time of the control plane's last confirmation. */
  confirmedAt = 0;
  /** The policy is older than staleMs, or missing. */
  degraded = true;
  /** Set by `close`: no key is admitted any more, in either fail mode. */
  isClosed = false;
  readonly #settings: Settings;
  readonly #ports: Ports;
  #expired = true;
  #cancel: (() => void)[] = [];

  constructor(settings: Settings, ports: Ports) {
    this.#settings = settings;
    this.#ports = ports;
  }

  /** The policy that may decide now; null when it is missing or older than maxStaleMs. */
  current(): Policy | null {
    return this.#expired ? null : this.policy;
  }

  /** Installs a policy that was current `ageMs` ago: 0 from the feed, more from a file. */
  confirm(policy: Policy, ageMs = 0): void {
    const { staleMs, maxStaleMs } = this.#settings;
    this.#stopTimers();
    this.policy = policy;
    this.confirmedAt = this.#ports.now() - ageMs;
    this.degraded = ageMs > staleMs;
    this.#expired = this.isClosed || ageMs > maxStaleMs;
    if (this.isClosed) return;
    this.#cancel = [
      this.#ports.after(staleMs - ageMs + 1, () => (this.degraded = true)),
      this.#ports.after(maxStaleMs - ageMs + 1, () => (this.#expired = true)),
      this.#ports.every(WATCH_MS, () => this.#checkWallClock()),
    ];
  }

  /**
   * Nothing admits keys from now on: once this node has left, no revocation waits for it. The policy stays, for the
   * cache file and the last call to the feed.
   */
  close(): void {
    this.isClosed = true;
    this.#expired = true;
    this.degraded = true;
    this.#stopTimers();
  }

  #stopTimers(): void {
    for (const cancel of this.#cancel) cancel();
    this.#cancel = [];
  }

  #checkWallClock(): void {
    const age = this.#ports.now() - this.confirmedAt;
    this.degraded ||= age > this.#settings.staleMs;
    this.#expired ||= age > this.#settings.maxStaleMs;
  }
}
