// Caches which ids belong to a workspace, so that ingest looks up new ids only. Ids are never reused and never change
// their owner, so entries never become invalid; the cache is only bounded. bench: ingest/batch
import type { Ledger } from "../../fairness/ledger.ts";
import type { Owner } from "../../fairness/owners.ts";
import type { Reader } from "../../store/engine/tx.ts";
import { findKnownKeys, findOwnedIds, type KnownKey } from "../../store/queries/ingest.ts";

export type KnownOwners = {
  readonly keys: Map<string, KnownKey>;
  readonly projects: Set<string>;
  readonly tenants: Set<string>;
  /** Project and tenant ids, each once: many keys share few of them. */
  readonly interned: Map<string, string>;
};

export type MissingIds = { keys: Set<string>; projects: Set<string>; tenants: Set<string> };

export class KnownIds {
  readonly #ledger: Ledger;
  /** By owner: one environment of a workspace. */
  readonly #known = new Map<string, KnownOwners>();

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
  }

  of(owner: Owner): KnownOwners {
    let known = this.#known.get(owner.id);
    if (!known) {
      known = { keys: new Map(), projects: new Set(), tenants: new Set(), interned: new Map() };
      this.#known.set(owner.id, known);
      this.#ledger.take(owner);
    }
    return known;
  }

  /** Looks up the missing ids and adds those of the workspace to `known`. */
  async resolve(
    on: Reader,
    workspace_id: string,
    owner: Owner,
    known: KnownOwners,
    missing: MissingIds,
  ): Promise<void> {
    const [keys, projects, tenants] = await Promise.all([
      findKnownKeys(on, workspace_id, [...missing.keys]),
      findOwnedIds(on, "projects", workspace_id, [...missing.projects]),
      findOwnedIds(on, "tenants", workspace_id, [...missing.tenants]),
    ]);
    this.#charge(owner, known, keys.length + projects.length + tenants.length);
    for (const { project_id, tenant_id, ...key } of keys) {
      const ids = { project_id: intern(known, project_id), tenant_id: intern(known, tenant_id) };
      known.keys.set(key.id, { ...key, ...ids });
    }
    for (const { id } of projects) known.projects.add(id);
    for (const { id } of tenants) known.tenants.add(id);
  }

  /** At its bound an owner forgets all that it knows. Batches in flight keep their own reference. */
  #charge(owner: Owner, known: KnownOwners, ids: number): void {
    while (this.#known.get(owner.id) === known && !this.#ledger.hasRoom(owner, ids)) {
      const victim = this.#ledger.victimFor(owner, ids) ?? owner;
      this.#ledger.countRefusal(victim);
      this.#ledger.release(victim, this.#ledger.usedBy(victim));
      this.#known.delete(victim.id);
    }
    if (this.#known.get(owner.id) === known) this.#ledger.take(owner, ids);
  }
}

function intern({ interned }: KnownOwners, id: string): string {
  const first = interned.get(id);
  if (first === undefined) interned.set(id, id);
  return first ?? id;
}
