// The subscriptions of one project, and when they are woken. The first change after a quiet moment wakes them at once; the
// next wake waits until the last one has rested as long as it took, so that many changes in a row (a bulk mint) cannot take
// more than half of the process. A wake reads the head once, for all, and yields to other requests between slices.
import { setImmediate as endOfTurn } from "node:timers/promises";
import type { Subscription } from "../core/subscription.ts";
import type { Head } from "./head.ts";

/** Polls woken before other requests get their turn; a poll takes up to 100 µs. bench: fleet/revocation */
const SLICE = 32;
const REST_MIN_MS = 50;

export class Waiters {
  readonly #subscriptions = new Set<Subscription<Head>>();
  readonly #readHead: () => Promise<Head>;
  /** The newest version that the subscriptions know. */
  #version = 0;
  /** The newest version to wake for, or 0. */
  #wanted = 0;
  #waking = false;
  #restsUntil = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(readHead: () => Promise<Head>) {
    this.#readHead = readHead;
  }

  get size(): number {
    return this.#subscriptions.size;
  }

  /** Milliseconds until the next wake may begin. */
  get restMs(): number {
    return Math.max(0, this.#restsUntil - performance.now());
  }

  /** `version`: what the subscription knows. */
  add(subscription: Subscription<Head>, version: number): void {
    if (this.size === 0 && this.#wanted === 0) this.#version = Math.max(this.#version, version);
    this.#subscriptions.add(subscription);
    if (version > this.#version) this.wake(version);
  }

  delete(subscription: Subscription<Head>): boolean {
    return this.#subscriptions.delete(subscription);
  }

  /** Whether a poll that knows `since` has to wait for the next wake although there is a newer version. */
  defers(since: number, version: number): boolean {
    if (since !== this.#version || (this.restMs === 0 && !this.#waking)) return false;
    this.wake(version);
    return true;
  }

  /** Wakes all for this version, at once or when they have rested. Returns false if they know it already. */
  wake(version = Number.POSITIVE_INFINITY): boolean {
    if (version <= this.#version) return false;
    this.#wanted = Math.max(this.#wanted, version);
    if (this.#waking || this.#timer) return true;
    if (this.restMs === 0) void this.#run();
    else this.#timer = setTimeout(() => void this.#run(), this.restMs).unref();
    return true;
  }

  end(): void {
    clearTimeout(this.#timer);
    for (const subscription of this.#subscriptions) subscription.end();
  }

  async #run(): Promise<void> {
    this.#timer = undefined;
    this.#waking = true;
    this.#wanted = 0;
    const start = performance.now();
    // Without a head, each poll reads it itself, and responds with the error.
    const head = await this.#readHead().catch(() => undefined);
    if (head) this.#version = head.version;
    if (this.#wanted <= this.#version) this.#wanted = 0;
    await this.#notifyAll(head);
    this.#waking = false;
    this.#restsUntil = start + Math.max(REST_MIN_MS, 2 * (performance.now() - start));
    if (this.#wanted > 0) this.wake(this.#wanted);
  }

  /** In the order in which they began to wait. */
  async #notifyAll(head: Head | undefined): Promise<void> {
    let woken = 0;
    const waiting = [...this.#subscriptions]; // without those that come back during the wake
    for (const subscription of waiting) {
      subscription.notify(head);
      if (++woken % SLICE === 0) await endOfTurn();
    }
  }
}
