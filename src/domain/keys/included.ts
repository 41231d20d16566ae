// The parts of a key that a reader asks for by `include`.
import { newestSuccessor } from "../../store/queries/keys.ts";
import type { Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { showEffectiveKey } from "../plans/effective.ts";
import { searchKeys, type KeySearch } from "../search/keys.ts";
import { viewKey } from "../core/views.ts";
import { lastUsesByKey } from "../usage/last-use.ts";
import { showKey } from "./keys.ts";
import { showVerdict } from "./lookup.ts";
import { withSuccessors } from "./successors.ts";

export async function showKeyWith(ctx: Ctx<Vendor>, id: string, include: readonly string[]) {
  const has = (part: string): boolean => include.includes(part);
  const key = has("effective") ? await showEffectiveKey(ctx, id) : await showKey(ctx, id);
  return {
    ...key,
    ...(has("last_used") && { last_used: (await lastUsesByKey(ctx, [key])).get(id) ?? null }),
    ...(has("successor") && { successor_id: await successorOf(ctx, id) }),
    ...(has("verdict") && { verdict: await showVerdict(ctx, id) }),
  };
}

/** In the project and environment of the key, so it is as readable as the key. */
async function successorOf({ services, actor }: Ctx<Vendor>, id: string): Promise<string | null> {
  const { workspace_id } = actor;
  return (await newestSuccessor.first(services.store.read, { workspace_id, id }))?.id ?? null;
}

export async function searchKeysWith(ctx: Ctx<Vendor>, search: KeySearch) {
  const viewer = withSuccessors(ctx, "api_keys", viewKey);
  if (search.include === undefined) return searchKeys(ctx, search, viewer);
  return searchKeys(ctx, search, async (rows) => {
    const uses = await lastUsesByKey(ctx, rows);
    const view = await viewer(rows);
    return (row) => ({ ...view(row), last_used: uses.get(row.id) ?? null });
  });
}
