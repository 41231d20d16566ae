// The leases that may still be returned, with what each booked and where. In process only; Redis stores its own.
// Note: the charge is in the counters, not here. A lease that does not fit is granted all the same and cannot be
// returned, so its units stay charged; losing an entry can never admit more.

/** Units booked into one span of each of these rows. */
export type HeldLease = { granted: number; end: number; slots: number[]; spans: number[] };

export const LEASES_PER_WORKSPACE_MAX = 10_000;
export const LEASES_MAX = 100_000;

export class LeaseTable {
  readonly #workspaces = new Map<string, Map<string, HeldLease>>();
  size = 0;

  put(workspace_id: string, lease_id: string, held: HeldLease, now: number): void {
    let leases = this.#workspaces.get(workspace_id);
    if (leases !== undefined) this.#dropLapsed(workspace_id, leases, now);
    if (this.size >= LEASES_MAX) this.#dropAllLapsed(now);
    if (this.size >= LEASES_MAX || (leases?.size ?? 0) >= LEASES_PER_WORKSPACE_MAX) return;
    if (leases === undefined || leases.size === 0) this.#workspaces.set(workspace_id, (leases ??= new Map()));
    leases.set(lease_id, held);
    this.size++;
  }

  has(workspace_id: string, lease_id: string): boolean {
    return this.#workspaces.get(workspace_id)?.has(lease_id) ?? false;
  }

  /** Removes and returns a lease of this workspace; null if it is unknown or expired. */
  take(workspace_id: string, lease_id: string, now: number): HeldLease | null {
    const leases = this.#workspaces.get(workspace_id);
    const held = leases?.get(lease_id);
    if (leases === undefined || held === undefined) return null;
    leases.delete(lease_id);
    this.size--;
    if (leases.size === 0) this.#workspaces.delete(workspace_id);
    return now < held.end ? held : null;
  }

  /** Oldest first, up to the first live one: no lease lives longer than LEASE_MAX_MS, so no expired one stays long. */
  #dropLapsed(workspace_id: string, leases: Map<string, HeldLease>, now: number): void {
    for (const [id, held] of leases) {
      if (now < held.end) break;
      leases.delete(id);
      this.size--;
    }
    if (leases.size === 0) this.#workspaces.delete(workspace_id);
  }

  #dropAllLapsed(now: number): void {
    for (const [id, leases] of this.#workspaces) this.#dropLapsed(id, leases, now);
  }
}
