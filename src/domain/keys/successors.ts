// The key that replaces another, in lists.
import { successorsIn, type Rotatable } from "../../store/queries/keys.ts";
import type { Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import type { Viewer } from "../core/list.ts";

type Rotated = { id: string; expires_at: number | null; revoked_at: number | null };

/**
 * Adds a successor that works. A rotation gives the old key an expiry, so most pages have no key to look for.
 * A successor is in the project and environment of the key, so it is as readable as the key.
 */
export function withSuccessors<R extends Rotated, T extends object>(
  { services, actor }: Ctx<Vendor>,
  table: Rotatable,
  view: (row: R) => T,
): Viewer<R, T & { successor_id: string | null }> {
  return async (rows) => {
    const ids = rows
      .filter(({ expires_at, revoked_at }) => expires_at !== null && revoked_at === null)
      .map(({ id }) => id);
    const { workspace_id } = actor;
    const page = { workspace_id, ids, now: services.clock.now() };
    const found = ids.length > 0 ? await successorsIn(services.store.read, table, page) : [];
    const successors = new Map(found.map(({ id, successor_id }) => [id, successor_id]));
    return (row) => ({ ...view(row), successor_id: successors.get(row.id) ?? null });
  };
}
