// Lets other requests run between the pieces of a long computation.

const HOLD_LOOP_MS = 2;

export class Yields {
  #at = performance.now();

  async ifDue(): Promise<void> {
    if (performance.now() - this.#at < HOLD_LOOP_MS) return;
    await new Promise((resolve) => setImmediate(resolve));
    this.#at = performance.now();
  }
}
