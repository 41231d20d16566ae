// Reads that several requests share: everyone who asks before a read starts gets its result, so what was committed
// before the request is in it. Nothing is kept between reads.
import { yieldToEventLoop } from "../../platform/event-loop.ts";

export class SharedReads<T> {
  readonly #unstarted = new Map<string, Promise<T>>();

  /** `read` calls `started` when it begins: who asks later gets a read of its own. */
  join(key: string, read: (started: () => void) => Promise<T>): Promise<T> {
    const unstarted = this.#unstarted.get(key);
    if (unstarted) return unstarted;
    const started = (): void => {
      if (this.#unstarted.get(key) === shared) this.#unstarted.delete(key);
    };
    const shared = yieldToEventLoop()
      .then(() => read(started))
      .finally(started);
    this.#unstarted.set(key, shared);
    return shared;
  }
}
