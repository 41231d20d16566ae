// Somebody who waits for a change, for a time: a long poll, or a revocation that wants to see its nodes follow.

/** Registers what to do when the caller is gone; answers how to take that back. */
export type OnGone = (listener: () => void) => () => void;

export const NEVER_GONE: OnGone = () => () => {};

/** A wake that comes while the owner is looking is not lost: the next wait returns at once. */
export class Waiter {
  over = false;
  #woken = false;
  #resume: (() => void) | undefined;
  readonly #timer: NodeJS.Timeout;
  readonly #stayed: () => void;
  readonly #left: () => void;

  constructor(waitMs: number, onGone: OnGone, left: () => void) {
    this.#left = left;
    this.#timer = setTimeout(() => this.end(), waitMs);
    this.#timer.unref();
    this.#stayed = onGone(() => this.end());
  }

  wake(): void {
    this.#woken = true;
    this.#resume?.();
  }

  end(): void {
    this.over = true;
    this.wake();
  }

  /** Resolves at the next wake, at once when there was one since the last call. */
  async next(): Promise<void> {
    if (!this.#woken) {
      await new Promise<void>((resolve) => {
        this.#resume = resolve;
      });
    }
    this.#woken = false;
    this.#resume = undefined;
  }

  leave(): void {
    clearTimeout(this.#timer);
    this.#stayed();
    this.#left();
  }
}
