// Ids that ingest has seen to belong to a workspace, so that a batch costs a lookup only for new ones. An id is never
// reused and never changes its place, so nothing here is ever wrong; it is only bounded.
import type { Reader } from "../../store/engine/statement.ts";
import { keyPlaces, ownIds, type KeyPlace } from "../../store/queries/ingest.ts";

export type Known = {
  readonly keys: Map<string, KeyPlace>;
  readonly projects: Set<string>;
  readonly tenants: Set<string>;
};

export type Missing = { keys: Set<string>; projects: Set<string>; tenants: Set<string> };

/** Some ten megabytes. More would be told apart from a leak only after hours. */
const IDS_MAX = 50_000;

export class KnownIds {
  readonly #workspaces = new Map<string, Known>();
  /** Many keys lie in few projects and tenants: each of their ids is held once. */
  readonly #places = new Map<string, string>();
  #size = 0;

  of(workspace_id: string): Known {
    let known = this.#workspaces.get(workspace_id);
    if (!known) {
      known = { keys: new Map(), projects: new Set(), tenants: new Set() };
      this.#workspaces.set(workspace_id, known);
      this.#size++;
    }
    return known;
  }

  /** Looks the missing ids up; those that are the workspace's are in `known` afterwards, with all that was there. */
  async resolve(on: Reader, workspace_id: string, known: Known, missing: Missing): Promise<void> {
    const [keys, projects, tenants] = await Promise.all([
      keyPlaces(on, workspace_id, [...missing.keys]),
      ownIds(on, "projects", workspace_id, [...missing.projects]),
      ownIds(on, "tenants", workspace_id, [...missing.tenants]),
    ]);
    this.#size += keys.length + projects.length + tenants.length;
    if (this.#size > IDS_MAX) this.#forget();
    for (const { project_id, tenant_id, ...key } of keys) {
      known.keys.set(key.id, { ...key, project_id: this.#once(project_id), tenant_id: this.#once(tenant_id) });
    }
    for (const { id } of projects) known.projects.add(id);
    for (const { id } of tenants) known.tenants.add(id);
  }

  #once(id: string): string {
    const held = this.#places.get(id);
    if (held === undefined) this.#places.set(id, id);
    return held ?? id;
  }

  /** Whoever sends next is looked up again; what a batch in flight holds stays as it is. */
  #forget(): void {
    this.#workspaces.clear();
    this.#places.clear();
    this.#size = 0;
  }
}
