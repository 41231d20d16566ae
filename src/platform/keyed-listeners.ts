// Listeners by the id of what they listen for.

export class KeyedListeners {
  readonly #listeners = new Map<string, Set<() => void>>();

  /** Returns how to unregister the listener. */
  on(key: string, listener: () => void): () => void {
    const listeners = this.#listeners.get(key) ?? new Set();
    this.#listeners.set(key, listeners.add(listener));
    return () => {
      if (listeners.delete(listener) && listeners.size === 0) this.#listeners.delete(key);
    };
  }

  /** What is listened for. */
  keys(): string[] {
    return [...this.#listeners.keys()];
  }

  of(key: string): Iterable<() => void> {
    return this.#listeners.get(key) ?? [];
  }
}
