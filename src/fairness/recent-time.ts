// How long each account has used a shared resource in the last minute, approximately: all of this minute, and of the
// one before the part that is less than a minute ago.
import { MINUTE_MS } from "../kernel/durations.ts";

export class RecentTime {
  readonly #now: () => number;
  /** By account, of the minute that `#minute` counts and of the one before. */
  #current = new Map<string, number>();
  #before = new Map<string, number>();
  #minute = 0;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  add(account: string, ms: number): void {
    this.#rollOver();
    this.#current.set(account, (this.#current.get(account) ?? 0) + ms);
  }

  of(account: string): number {
    const elapsed = this.#rollOver();
    return (this.#current.get(account) ?? 0) + (this.#before.get(account) ?? 0) * (1 - elapsed);
  }

  /** Returns the part of this minute that has passed. */
  #rollOver(): number {
    const minutes = this.#now() / MINUTE_MS;
    const minute = Math.floor(minutes);
    if (minute !== this.#minute) {
      this.#before = minute === this.#minute + 1 ? this.#current : new Map();
      this.#current = new Map();
      this.#minute = minute;
    }
    return minutes - minute;
  }
}
