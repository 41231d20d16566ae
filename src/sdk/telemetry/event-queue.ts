// Serialized events that wait for a batch, bounded by count and by size.

export const BATCH_EVENTS = 1000;
const BATCH_CHARS = 1 << 20;
const QUEUE_EVENTS = 10_000;
const QUEUE_CHARS = 8 << 20;

/** `share`: of each bound. */
export class EventQueue {
  readonly #share: number;
  readonly #events: string[] = [];
  #chars = 0;

  constructor(share: number) {
    this.#share = share;
  }

  get length(): number {
    return this.#events.length;
  }

  /** False if there is no room. */
  push(event: string): boolean {
    const chars = this.#chars + event.length;
    if (this.#events.length >= QUEUE_EVENTS * this.#share || chars > QUEUE_CHARS * this.#share) return false;
    this.#events.push(event);
    this.#chars = chars;
    return true;
  }

  /** Removes the oldest events, as many as its share of a batch holds. */
  take(): string[] {
    let [chars, count] = [0, 0];
    while (count < this.length && count < BATCH_EVENTS * this.#share && chars < BATCH_CHARS * this.#share) {
      chars += this.#events[count++]?.length ?? 0;
    }
    this.#chars -= chars;
    return this.#events.splice(0, count);
  }
}
