// Collects the checks of one turn of the event loop into few script calls: under load most of a check's cost is the
// command around it, for Node and for Redis alike. The trap: a batch stands or falls together, so what must not be
// repeated or lost with others (a lease, a return) goes alone.

/** What travels together: flat keys and arguments as the script reads them, and who waits for which numbers. */
export type Batch<Waiter> = { keys: string[]; args: (string | number)[]; waiters: Waiter[] };

// Two batches under way overlap: Redis works on one while Node reads the other's answers. One big batch would have
// them take turns, and would let Redis' other clients wait.
const BATCH_MAX = 25;

export class Batcher<Waiter> {
  readonly #send: (batch: Batch<Waiter>) => void;
  #open = new Map<string, Batch<Waiter>>();
  #scheduled = false;

  constructor(send: (batch: Batch<Waiter>) => void) {
    this.#send = send;
  }

  /** The batch that the next check of this group joins. In a cluster a group's keys must lie on one node. */
  batch(group: string): Batch<Waiter> {
    const open = this.#open.get(group);
    if (open !== undefined && open.waiters.length < BATCH_MAX) return open;
    if (open !== undefined) this.#send(open);
    const fresh: Batch<Waiter> = { keys: [], args: [], waiters: [] };
    this.#open.set(group, fresh);
    if (!this.#scheduled) {
      this.#scheduled = true;
      // Not a microtask: those run between two sockets' data, and would send each request's check alone.
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
