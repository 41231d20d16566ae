// The parts of a key that a reader asks for by `include`.
import type { Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { showEffectiveKey } from "../plans/effective.ts";
import { searchKeys, type KeySearch } from "../search/keys.ts";
import { withLastUse } from "../usage/last-use.ts";
import { showKey } from "./keys.ts";

export async function showKeyWith(ctx: Ctx<Vendor>, id: string, include: readonly string[]) {
  const key = include.includes("effective") ? await showEffectiveKey(ctx, id) : await showKey(ctx, id);
  if (!include.includes("last_used")) return key;
  const [used] = await withLastUse(ctx, [key]);
  return used ?? key;
}

export async function searchKeysWith(ctx: Ctx<Vendor>, search: KeySearch) {
  const page = await searchKeys(ctx, search);
  return search.include === undefined ? page : { ...page, data: await withLastUse(ctx, page.data) };
}
