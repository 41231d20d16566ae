// Reads a page of keys by filters that no index has together.
import { isIndexed, listedRangeEnd, listKeys, type KeyFilter } from "../../store/queries/key-list.ts";
import type { ApiKeyRow } from "../../store/schema/tables.ts";
import type { Ctx } from "../core/context.ts";
import { inThreadSlot, threadReader } from "../core/read-slots.ts";

/** Keys that a list examines on the main thread; more would delay other requests. */
const EXAMINED_MAX = 1_000;

/** The main thread fills most pages; one that examines more keys is read in a thread. */
export async function readKeyPage(ctx: Ctx, filter: KeyFilter): Promise<ApiKeyRow[]> {
  const { store } = ctx.services;
  const end = isIndexed(filter) ? undefined : await listedRangeEnd(store.read, filter, EXAMINED_MAX);
  const rows = await listKeys(store.read, filter, end);
  if (end === undefined || rows.length > filter.limit) return rows;
  return inThreadSlot(ctx, () => listKeys(threadReader(store), filter));
}
