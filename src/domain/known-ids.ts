// Ids that ingest has seen to belong to a workspace, so that a batch costs a lookup only for new ones. An id is never
// reused and never changes its place, so nothing here is ever wrong; it is only bounded.
import type { Reader } from "../store/statement.ts";
import { keyPlaces, ownIds, type KeyPlace } from "../store/ingest.ts";

export type Known = {
  readonly keys: Map<string, KeyPlace>;
  readonly projects: Set<string>;
  readonly tenants: Set<string>;
};

export type Missing = { keys: Set<string>; projects: Set<string>; tenants: Set<string> };

const IDS_MAX = 200_000;

export class KnownIds {
  readonly #workspaces = new Map<string, Known>();
  #size = 0;

  of(workspace_id: string): Known {
    let known = this.#workspaces.get(workspace_id);
    if (!known) {
      known = { keys: new Map(), projects: new Set(), tenants: new Set() };
      this.#workspaces.set(workspace_id, known);
    }
    return known;
  }

  /** Looks the missing ids up; those that are the workspace's are known afterwards. */
  async resolve(on: Reader, workspace_id: string, missing: Missing): Promise<void> {
    const [keys, projects, tenants] = await Promise.all([
      keyPlaces(on, workspace_id, [...missing.keys]),
      ownIds(on, "projects", workspace_id, [...missing.projects]),
      ownIds(on, "tenants", workspace_id, [...missing.tenants]),
    ]);
    this.#size += keys.length + projects.length + tenants.length;
    if (this.#size > IDS_MAX) this.#forget();
    const known = this.of(workspace_id);
    for (const place of keys) known.keys.set(place.id, place);
    for (const { id } of projects) known.projects.add(id);
    for (const { id } of tenants) known.tenants.add(id);
  }

  /** Whoever sends next is looked up again; the records that a batch in flight holds stay valid. */
  #forget(): void {
    this.#workspaces.clear();
    this.#size = 0;
  }
}
