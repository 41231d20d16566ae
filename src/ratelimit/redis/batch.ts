// Batches the checks of one event-loop turn into few script calls: under load most of a check's cost is the command
// around it, for Node and for Redis alike. bench: limiter/redis-check
// Caution: a batch succeeds or fails as a whole, so a call that must not be lost with others (lease, return) is sent
// alone.

/** Flat keys and arguments as the script reads them, and the callers that wait for the reply. */
export type RedisBatch<Waiter> = { keys: string[]; args: (string | number)[]; waiters: Waiter[] };

// Small enough that batches overlap: Redis runs one while Node reads the reply of another, and Redis' other clients are
// not blocked for long.
const BATCH_MAX = 25;

export class Batcher<Waiter> {
  readonly #send: (batch: RedisBatch<Waiter>) => void;
  #open = new Map<string, RedisBatch<Waiter>>();
  #scheduled = false;

  constructor(send: (batch: RedisBatch<Waiter>) => void) {
    this.#send = send;
  }

  /** The batch that the next check of this group joins. In a cluster all keys of a group must be on one node. */
  batch(group: string): RedisBatch<Waiter> {
    const open = this.#open.get(group);
    if (open !== undefined && open.waiters.length < BATCH_MAX) return open;
    if (open !== undefined) this.#send(open);
    const fresh: RedisBatch<Waiter> = { keys: [], args: [], waiters: [] };
    this.#open.set(group, fresh);
    if (!this.#scheduled) {
      this.#scheduled = true;
      // Not a microtask: those run between the data of two sockets, and would send each request's check alone.
      setImmediate(() => this.#flush());
    }
    return fresh;
  }

  #flush(): void {
    const open = this.#open;
    this.#open = new Map();
    this.#scheduled = false;
    for (const batch of open.values()) this.#send(batch);
  }
}
