// A bounded wait for changes of a project: a long poll, or a revocation that waits for its nodes.

/** Registers a listener for the caller's disconnect; returns how to unregister it. */
export type OnDisconnect = (listener: () => void) => () => void;

export const NEVER_DISCONNECTS: OnDisconnect = () => () => {};

/** A change notified while the owner is busy is not lost: the next `changed()` resolves at once. */
export class Subscription<News = undefined> {
  /** True once the time is up, the caller has disconnected or the service is stopping. */
  ended = false;
  #pending = false;
  #news: News | undefined;
  #resume: ((news: News | undefined) => void) | undefined;
  readonly #timer: NodeJS.Timeout;
  readonly #unregister: () => void;
  readonly #onClose: () => void;

  constructor(waitMs: number, onDisconnect: OnDisconnect, onClose: () => void) {
    this.#onClose = onClose;
    this.#timer = setTimeout(() => this.end(), waitMs);
    this.#timer.unref();
    this.#unregister = onDisconnect(() => this.end());
  }

  notify(news?: News): void {
    const resume = this.#resume;
    this.#resume = undefined;
    if (resume) return resume(news);
    this.#news = news;
    this.#pending = true;
  }

  end(): void {
    this.ended = true;
    this.notify();
  }

  /** Resolves at the next notification, or at once if there was one since the last call. */
  changed(): Promise<News | undefined> {
    return new Promise((resolve) => {
      if (!this.#pending) {
        this.#resume = resolve;
        return;
      }
      this.#pending = false;
      resolve(this.#news);
    });
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#unregister();
    this.#onClose();
  }
}
