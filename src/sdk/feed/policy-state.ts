// The policy in force and its age, by two clocks of which the older result wins: timers, which are not affected when
// the wall clock is set back, and the wall clock read every second, which includes the time a machine was suspended.
// `current` and `degraded` only read fields: a clock on every decision costs as much as the lookup.
// bench: verify/floor-1e5

import type { Policy } from "../../kernel/policy/policy.ts";
import type { Settings } from "../options.ts";
import type { Log, Ports } from "../runtime.ts";

const WATCH_MS = 1000;
/** How old a policy is, as it was last logged. */
type Age = "fresh" | "stale" | "expired";
const EFFECT = { closed: "every key is refused", open: "keys are admitted unverified" } as const;

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
  readonly #log: Log;
  #expired = true;
  #logged: Age = "fresh";
  /** The feed has failed since the last confirmation. */
  #isFailing = false;
  #cancel: (() => void)[] = [];

  constructor(settings: Settings, ports: Ports, log: Log) {
    this.#settings = settings;
    this.#ports = ports;
    this.#log = log;
  }

  /** The policy that may decide now; null when it is missing or older than maxStaleMs. */
  current(): Policy | null {
    return this.#expired ? null : this.policy;
  }

  /** Installs a policy that was current `ageMs` ago: 0 from the feed, more from a file. */
  confirm(policy: Policy, ageMs = 0): void {
    const { staleMs, maxStaleMs } = this.#settings;
    this.#stopTimers();
    this.#isFailing = false;
    this.policy = policy;
    this.confirmedAt = this.#ports.now() - ageMs;
    this.degraded = ageMs > staleMs;
    this.#expired = this.isClosed || ageMs > maxStaleMs;
    if (this.isClosed) return;
    this.#logChange(ageMs);
    this.#cancel = [
      this.#ports.after(staleMs - ageMs + 1, () => this.#age(staleMs + 1)),
      this.#ports.after(maxStaleMs - ageMs + 1, () => this.#age(maxStaleMs + 1)),
      this.#ports.every(WATCH_MS, () => this.#age(this.#ports.now() - this.confirmedAt)),
    ];
  }

  /** A call to the feed failed. */
  fail(): void {
    this.#isFailing = true;
    if (this.policy && !this.isClosed) this.#logChange(this.#ports.now() - this.confirmedAt);
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

  #age(ageMs: number): void {
    this.degraded ||= ageMs > this.#settings.staleMs;
    this.#expired ||= ageMs > this.#settings.maxStaleMs;
    this.#logChange(ageMs);
  }

  /**
   * Once for each change: the log of the feed's failures becomes rarer and does not say what they lead to. Without a
   * failure, a policy is stale between two polls where pollMs is larger than staleMs or the process was frozen.
   */
  #logChange(ageMs: number): void {
    const age: Age = this.#expired ? "expired" : this.degraded ? "stale" : "fresh";
    if (age === this.#logged || (age === "stale" && !this.#isFailing)) return;
    this.#logged = age;
    const { failMode } = this.#settings;
    const fields = { age_ms: ageMs, fail_mode: failMode };
    if (age === "fresh") this.#log("info", "the policy is fresh again", { version: this.policy?.version });
    else if (age === "stale") this.#log("warn", "the policy is stale: decisions are degraded", fields);
    else this.#log("error", `the policy is older than maxStaleMs: ${EFFECT[failMode]}`, fields);
  }
}
