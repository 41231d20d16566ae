// Caches which ids belong to a workspace, so that ingest looks up new ids only. Ids are never reused and never change their
// owner, so entries never become invalid; the cache is only bounded. bench: ingest/batch
import type { Reader } from "../../store/engine/statement.ts";
import { findKeyOwners, findOwnedIds, type KeyOwner } from "../../store/queries/ingest.ts";

export type KnownOwners = {
  readonly keys: Map<string, KeyOwner>;
  readonly projects: Set<string>;
  readonly tenants: Set<string>;
};

export type MissingIds = { keys: Set<string>; projects: Set<string>; tenants: Set<string> };

/** About ten megabytes. */
const IDS_MAX = 50_000;

export class KnownIds {
  readonly #workspaces = new Map<string, KnownOwners>();
  /** Interns project and tenant ids: many keys share few of them. */
  readonly #interned = new Map<string, string>();
  #size = 0;

  of(workspace_id: string): KnownOwners {
    let known = this.#workspaces.get(workspace_id);
    if (!known) {
      known = { keys: new Map(), projects: new Set(), tenants: new Set() };
      this.#workspaces.set(workspace_id, known);
      this.#size++;
    }
    return known;
  }

  /** Looks up the missing ids and adds those of the workspace to `known`. */
  async resolve(on: Reader, workspace_id: string, known: KnownOwners, missing: MissingIds): Promise<void> {
    const [keys, projects, tenants] = await Promise.all([
      findKeyOwners(on, workspace_id, [...missing.keys]),
      findOwnedIds(on, "projects", workspace_id, [...missing.projects]),
      findOwnedIds(on, "tenants", workspace_id, [...missing.tenants]),
    ]);
    this.#size += keys.length + projects.length + tenants.length;
    if (this.#size > IDS_MAX) this.#clear();
    for (const { project_id, tenant_id, ...key } of keys) {
      known.keys.set(key.id, { ...key, project_id: this.#intern(project_id), tenant_id: this.#intern(tenant_id) });
    }
    for (const { id } of projects) known.projects.add(id);
    for (const { id } of tenants) known.tenants.add(id);
  }

  #intern(id: string): string {
    const interned = this.#interned.get(id);
    if (interned === undefined) this.#interned.set(id, id);
    return interned ?? id;
  }

  /** Later batches look their ids up again; batches in flight keep their own reference. */
  #clear(): void {
    this.#workspaces.clear();
    this.#interned.clear();
    this.#size = 0;
  }
}
