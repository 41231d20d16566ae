// Wakes the long polls of one project. After a quiet moment, the first change wakes them immediately. The next wake
// follows after a pause as long as the last one kept the process busy, until its polls were waiting again, because
// responses and acknowledgements cost more than the wake itself. So a burst of changes, such as a bulk mint, uses at
// most half of the process. The pause is at most a few milliseconds for each poll: other work must not delay the
// changes of a small fleet. A wake reads the head once and yields between slices. bench: fleet/checks-beside-wakes
import { performance } from "node:perf_hooks";
import { yieldToEventLoop } from "../../platform/event-loop.ts";
import type { Subscription } from "../core/subscription.ts";
import type { Head } from "./head.ts";

/** Polls woken before other requests get their turn; a poll takes up to 100 µs. bench: fleet/revocation */
const SLICE = 32;
const PAUSE_MIN_MS = 50;
/** The most that one poll costs, with its return and its acknowledgement, where other processes use the cores too. */
const POLL_MS = 5;
/** A poll comes back as part of a wake within this time after the wake, or after another that came back. */
const RETURN_MS = 1_000;
/** After a wake began: polls that come back late cannot delay the next change for longer, except in large fleets. */
const PAUSE_MAX_MS = 5_000;
/** The most that one poll costs on a core of its own: what the wake of a large fleet certainly took. */
const CPU_POLL_MS = 1;

export class Waiters {
  readonly #subscriptions = new Set<Subscription<Head>>();
  readonly #readHead: () => Promise<Head>;
  /** The newest version that the subscriptions know. */
  #version = 0;
  /** The newest version to wake for, or 0. */
  #wanted = 0;
  /** The newest version that a wake was asked for, whether it has happened yet or not. */
  #announced = 0;
  #waking = false;
  /**
   * When the last wake began, of how many polls, how busy the process was until then, and until when one comes back.
   */
  #last = { at: 0, polls: 0, busy: performance.eventLoopUtilization(), endsAt: 0 };
  /** Polls of the last wake that have not come back. */
  #away = 0;
  #pausedUntil = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(readHead: () => Promise<Head>) {
    this.#readHead = readHead;
  }

  get size(): number {
    return this.#subscriptions.size;
  }

  /** Milliseconds until the next wake may begin. */
  get pauseMs(): number {
    return Math.max(0, this.#pausedUntil - performance.now());
  }

  /** `version`: what the subscription knows. */
  add(subscription: Subscription<Head>, version: number): void {
    if (this.size === 0 && this.#wanted === 0) this.#version = Math.max(this.#version, version);
    this.#subscriptions.add(subscription);
    this.#countReturn();
    if (version > this.#version) this.wake(version);
  }

  delete(subscription: Subscription<Head>): boolean {
    return this.#subscriptions.delete(subscription);
  }

  /** Whether a poll that knows `since` has to wait for the next wake although there is a newer version. */
  defers(since: number, version: number): boolean {
    if (since < this.#version || since >= version || (this.pauseMs === 0 && !this.#waking)) return false;
    this.wake(version);
    return true;
  }

  /** Wakes all polls for this version, at once or after the pause. Returns false if it was announced before. */
  wake(version = Number.POSITIVE_INFINITY): boolean {
    if (version <= this.#version) return false;
    const isNew = version > this.#announced;
    if (isNew && Number.isFinite(version)) this.#announced = version;
    this.#wanted = Math.max(this.#wanted, version);
    if (this.#waking || this.#timer) return isNew;
    if (this.pauseMs === 0) void this.#run();
    else this.#timer = setTimeout(() => this.#resume(), this.pauseMs).unref();
    return isNew;
  }

  /** Cancels the pending wake. */
  stop(): void {
    clearTimeout(this.#timer);
  }

  /** The pause may have become longer since. */
  #resume(): void {
    this.#timer = undefined;
    this.wake(this.#wanted);
  }

  async #run(): Promise<void> {
    this.#waking = true;
    this.#wanted = 0;
    const [at, polls, busy] = [performance.now(), this.size, performance.eventLoopUtilization()];
    this.#last = { at, polls, busy, endsAt: Number.POSITIVE_INFINITY };
    this.#away = polls;
    // Without a head, each poll reads it itself, and responds with the error.
    const head = await this.#readHead().catch(() => undefined);
    if (head) this.#version = head.version;
    if (this.#wanted <= this.#version) this.#wanted = 0;
    await this.#notifyAll(head);
    this.#waking = false;
    this.#last.endsAt = performance.now() + RETURN_MS;
    this.#pause();
    if (this.#wanted > 0) this.wake(this.#wanted);
  }

  #countReturn(): void {
    if (this.#away === 0 || performance.now() > this.#last.endsAt) return;
    this.#away--;
    this.#last.endsAt = performance.now() + RETURN_MS;
    this.#pause();
  }

  /**
   * Pauses for as long as the process was busy since the wake began: time spent waiting for slow nodes does not count.
   */
  #pause(): void {
    const { at, busy, polls } = this.#last;
    const ownMs = Math.min(performance.eventLoopUtilization(busy).active, polls * POLL_MS);
    // Twice what it took: otherwise the wakes of a fleet that takes seconds would leave less than half to others.
    const maxMs = Math.max(PAUSE_MAX_MS, 2 * Math.min(ownMs, polls * CPU_POLL_MS));
    this.#pausedUntil = Math.min(at + maxMs, Math.max(at + PAUSE_MIN_MS, performance.now() + ownMs));
  }

  /** In the order in which they began to wait. */
  async #notifyAll(head: Head | undefined): Promise<void> {
    let woken = 0;
    const waiting = [...this.#subscriptions]; // without those that come back during the wake
    for (const subscription of waiting) {
      subscription.notify(head);
      if (++woken % SLICE === 0) await yieldToEventLoop();
    }
  }
}
