// Throttles: per-process fixed windows, keyed by what is throttled and for whom. They slow abuse of Keyrack itself down;
// the customers' rate limits, which never admit too much, are in src/ratelimit.
import { BoundedMap } from "../../kernel/lru.ts";
import { createHmac } from "node:crypto";
import { fail, type Failure, type FailureName } from "../../kernel/errors.ts";
import type { Clock } from "../core/clock.ts";
import type { Vault } from "../vault/vault.ts";

export type Throttle = { name: string; limit: number; windowMs: number };
type Window = { start: number; used: number };

const SUBJECTS_MAX = 200_000;

export class Throttles {
  readonly #clock: Clock;
  readonly #enabled: boolean;
  readonly #windows = new BoundedMap<string, Window>({ max: SUBJECTS_MAX, evictAtOnce: SUBJECTS_MAX / 10 });

  constructor(clock: Clock, enabled: boolean) {
    this.#clock = clock;
    this.#enabled = enabled;
  }

  /** Takes one unit; throws when the window has none left. */
  take(throttle: Throttle, subject: string): void {
    const refusal = this.tryTake(throttle, subject);
    if (refusal) throw refusal;
  }

  /** Takes `cost` units; returns the refusal when the window has too few left. */
  tryTake(throttle: Throttle, subject: string, cost = 1): Failure | undefined {
    if (!this.#enabled || throttle.limit === 0) return undefined;
    const window = this.#window(throttle, subject);
    if (window.used + cost > throttle.limit) return this.refusal(throttle, window);
    window.used += cost;
    return undefined;
  }

  /** Returns a unit, for a use that must not count. */
  refund(throttle: Throttle, subject: string): void {
    const window = this.#windows.get(`${throttle.name} ${subject}`);
    if (window && window.used > 0) window.used--;
  }

  /** Resets every window whose subject contains this key. */
  reset(key: string): void {
    for (const name of this.#windows.keys()) if (name.split(" ").includes(key)) this.#windows.delete(name);
  }

  /** A 429 with Retry-After, RateLimit and RateLimit-Policy. */
  refusal(
    throttle: Throttle,
    window: Window = { start: this.#clock.now(), used: throttle.limit },
    name: FailureName = "rate_limited",
  ): Failure {
    const seconds = Math.max(1, Math.ceil((window.start + throttle.windowMs - this.#clock.now()) / 1000));
    return fail(name, {
      retryAfterSeconds: seconds,
      headers: {
        ratelimit: `"${throttle.name}";r=${Math.max(0, throttle.limit - window.used)};t=${seconds}`,
        "ratelimit-policy": `"${throttle.name}";q=${throttle.limit};w=${Math.ceil(throttle.windowMs / 1000)}`,
      },
    });
  }

  #window(throttle: Throttle, subject: string): Window {
    const now = this.#clock.now();
    const start = now - (now % throttle.windowMs);
    const key = `${throttle.name} ${subject}`;
    const found = this.#windows.get(key);
    if (found && found.start === start) return found;
    const fresh = { start, used: 0 };
    this.#windows.delete(key);
    this.#windows.set(key, fresh);
    return fresh;
  }
}

/** A keyed hash of a throttled address or network, so that memory and database do not reveal who tried to log in. */
export function throttleKey({ vault }: { readonly vault: Vault }, text: string): string {
  return createHmac("sha256", vault.derive("throttle keys")).update(text).digest("hex");
}
