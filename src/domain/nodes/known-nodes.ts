// What this process knows of the rows of nodes: a report without news costs no write, and a node that receipts count
// already does not wait for one.
import { FairMap } from "../../fairness/fair-map.ts";
import type { Ledger } from "../../fairness/ledger.ts";
import type { Owner } from "../../fairness/owners.ts";
import type { PolicyNodeRow } from "../../store/schema/tables.ts";
import type { Clock } from "../core/clock.ts";
import type { NodeTraits } from "./traits.ts";

/** A node as its row is, or will be once the report that is being written is stored. */
export type KnownNode = NodeTraits & Pick<PolicyNodeRow, "version" | "last_seen_at">;

/** `storedAt`: `last_seen_at` of its row, 0 without one. `stale`: whether the row must be read again. */
type Entry = { node: KnownNode; storedAt: number; stale: boolean };

export class KnownNodes {
  readonly #entries: FairMap<Entry>;
  readonly #clock: Clock;
  readonly #liveMs: number;

  constructor(ledger: Ledger, clock: Clock, liveMs: number) {
    this.#entries = new FairMap(ledger);
    this.#clock = clock;
    this.#liveMs = liveMs;
  }

  /** Undefined if the row must be read. */
  get(key: string): KnownNode | undefined {
    const entry = this.#entries.get(key);
    return entry?.stale ? undefined : entry?.node;
  }

  /** Whether the database has a row that will count as live until the node's next poll. */
  isLive(key: string): boolean {
    const entry = this.#entries.get(key);
    return entry !== undefined && this.#clock.now() - entry.storedAt < this.#liveMs / 2;
  }

  /** `row`: as the database has it, before the report of `node` is written. */
  set(owner: Owner, key: string, node: KnownNode, row: KnownNode | undefined): void {
    this.#entries.set(owner, key, { node, storedAt: row?.last_seen_at ?? 0, stale: false });
  }

  /** The node's report is in the database. */
  stored(key: string): void {
    const entry = this.#entries.get(key);
    if (entry) entry.storedAt = entry.node.last_seen_at;
  }

  /** The row may differ from what is known, and is read before the next report is written. It still counts. */
  markStale(key: string): void {
    const entry = this.#entries.get(key);
    if (entry) entry.stale = true;
  }

  delete(key: string): void {
    this.#entries.delete(key);
  }

  clear(): void {
    this.#entries.clear();
  }
}
