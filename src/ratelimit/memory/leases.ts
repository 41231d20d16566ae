// The leases that may still be returned, with what each booked and where. In process only; Redis stores its own.
// Note: the charge is in the counters, not here. The units of a lease that had to make room stay charged; losing an
// entry can never admit more.
import { FairMap } from "../../fairness/fair-map.ts";
import type { Ledger } from "../../fairness/ledger.ts";
import type { Owner } from "../../fairness/owners.ts";
import type { Rule } from "./cells.ts";

/**
 * Units booked into one span of each of these rows. A row may have been evicted since: it is of `rule` and `subject`.
 */
export type HeldLease = {
  granted: number;
  end: number;
  booked: readonly { slot: number; span: number; rule: Rule; subject: string }[];
};

type Entry = HeldLease & { workspace_id: string };

/** Expired entries that one lease removes at most. */
const DROPPED_MAX = 100;

export class LeaseTable {
  /** Oldest first. */
  readonly #entries: FairMap<Entry>;

  constructor(ledger: Ledger) {
    this.#entries = new FairMap(ledger);
  }

  get size(): number {
    return this.#entries.size;
  }

  put(owner: Owner, workspace_id: string, id: string, held: HeldLease, now: number): void {
    this.#dropExpired(now);
    this.#entries.set(owner, id, { ...held, workspace_id });
  }

  has(workspace_id: string, lease_id: string): boolean {
    return this.#entries.get(lease_id)?.workspace_id === workspace_id;
  }

  /** Removes and returns a lease of this workspace; null if it is unknown or expired. */
  take(workspace_id: string, lease_id: string, now: number): HeldLease | null {
    const entry = this.#entries.get(lease_id);
    if (entry?.workspace_id !== workspace_id) return null;
    this.#entries.delete(lease_id);
    return now < entry.end ? entry : null;
  }

  /** Up to the first live one: no lease lives longer than LEASE_MAX_MS, so no expired one stays long. */
  #dropExpired(now: number): void {
    let left = DROPPED_MAX;
    for (const [id, { end }] of this.#entries) {
      if (now < end || left-- === 0) return;
      this.#entries.delete(id);
    }
  }
}
