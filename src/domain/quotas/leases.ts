// The units of quotas that are in leases. They are spent unless they are returned: until a minute after the lease's
// end, because a node never spends after it. A lease that had to make room cannot be returned. One that is also on
// Redis belongs to the process that takes its record from there, so that it is returned once.
import { FairSet } from "../../fairness/fair-set.ts";
import type { Ledger } from "../../fairness/ledger.ts";
import type { Owner } from "../../fairness/owners.ts";
import { sumOf } from "../../kernel/quotas/allocation.ts";
import type { SharedLeases } from "../../ratelimit/counter.ts";
import type { AppliedQuota } from "./holding.ts";
import { RETURNABLE_MS, writeLease, type LeasedQuota, type NewLease } from "./lease-records.ts";

const NOTHING = { units: 0, applied: [] };

/** `granted`: units of the lease that came from grants. */
type Held = LeasedQuota & { readonly granted: number };
type Entry = Omit<NewLease, "charges"> & {
  readonly charges: readonly Held[];
  /** It has expired and no longer counts as held. */
  isEnded: boolean;
  /** Other processes may return it. */
  isShared: boolean;
};

export class QuotaLeases {
  /** Oldest first. */
  readonly #entries = new Map<string, Entry>();
  readonly #fair: FairSet<Entry>;
  /** Where other processes find leases; null: they cannot return them. */
  readonly shared: SharedLeases | null;

  constructor(ledger: Ledger, shared: SharedLeases | null = null) {
    this.shared = shared;
    this.#fair = new FairSet<Entry>(ledger, (entry) => this.#drop(entry), { replacesOwn: () => true });
  }

  /** Without a promise where no other process may return it. */
  lend(owner: Owner, lease: NewLease, now: number): void | Promise<void> {
    const entry = this.#put(owner, lease);
    if (entry && this.shared) return this.#share(this.shared, entry, lease, now);
  }

  async #share(shared: SharedLeases, entry: Entry, lease: NewLease, now: number): Promise<void> {
    const ttlMs = lease.end + RETURNABLE_MS - now;
    entry.isShared = await shared.put(lease.workspace_id, lease.id, writeLease(lease), ttlMs);
  }

  /** Returns null if there is no room. */
  #put(owner: Owner, lease: NewLease): Entry | null {
    const charges = lease.charges.map((charge) => {
      const fromGrants = charge.spent.map(({ part }) => part).filter(({ grant }) => grant !== null);
      return { ...charge, granted: sumOf(fromGrants) };
    });
    const entry = { ...lease, charges, isEnded: false, isShared: false };
    if (!this.#fair.add(owner, entry)) return null;
    this.#entries.set(entry.id, entry);
    for (const { holding, granted } of charges) {
      holding.held += entry.granted;
      holding.heldGranted += granted;
    }
    return entry;
  }

  find(workspace_id: string, id: string): Entry | undefined {
    const entry = this.#entries.get(id);
    return entry?.workspace_id === workspace_id ? entry : undefined;
  }

  /** Puts unused units back; returns how many, and of which quotas. */
  return(
    workspace_id: string,
    id: string,
    unused: number,
    now: number,
  ): { units: number; applied: readonly AppliedQuota[] } {
    const entry = this.find(workspace_id, id);
    if (!entry) return NOTHING;
    this.forget(id);
    if (now >= entry.end + RETURNABLE_MS) return NOTHING;
    const units = Math.max(0, Math.min(unused, entry.granted));
    for (const { holding, spent } of entry.charges) holding.restore(spent, units, now);
    return { units, applied: entry.charges };
  }

  /** The lease has been returned, here or in another process. */
  forget(id: string): void {
    const entry = this.#entries.get(id);
    if (!entry) return;
    this.#fair.delete(entry);
    this.#drop(entry);
  }

  /** Ends expired leases. */
  expire(now: number): void {
    for (const entry of this.#entries.values()) {
      if (now < entry.end) continue;
      this.#end(entry);
      if (now < entry.end + RETURNABLE_MS) continue;
      this.#fair.delete(entry);
      this.#entries.delete(entry.id);
    }
  }

  #drop(entry: Entry): void {
    this.#entries.delete(entry.id);
    this.#end(entry);
  }

  #end(entry: Entry): void {
    if (entry.isEnded) return;
    entry.isEnded = true;
    for (const { holding, granted } of entry.charges) {
      holding.held -= entry.granted;
      holding.heldGranted -= granted;
      holding.isUnpublished = true;
    }
  }
}
