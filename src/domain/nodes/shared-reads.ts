// Coalesces reads: callers that join before a read starts share its result, which therefore includes everything that
// was committed before they joined. Nothing is kept between reads.
import { yieldToEventLoop } from "../../platform/event-loop.ts";

export class SharedReads<T> {
  readonly #unstarted = new Map<string, Promise<T>>();

  /** `read` calls `started` when it begins: later callers start a new read. */
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
