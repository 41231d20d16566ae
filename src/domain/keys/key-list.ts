// Reads pages of keys: by filters that no index has together, and by ids.
import { yieldToEventLoop } from "../../platform/event-loop.ts";
import { readPiece } from "../../store/engine/piece.ts";
import type { Piece } from "../../store/engine/tx.ts";
import { isIndexed, listedRangeEnd, listKeyIds, listKeys, type ListFilter } from "../../store/queries/key-list.ts";
import { keysByIds } from "../../store/queries/key-search.ts";
import type { PageKey } from "../../store/queries/page.ts";
import type { ApiKeyRow } from "../../store/schema/tables.ts";
import type { Ctx, Services } from "../core/context.ts";
import { hasMoreField, readPage, type JsonText, type List, type Viewer } from "../core/list.ts";
import { inThreadSlot, threadReader } from "../core/read-slots.ts";

/** Keys that a list examines on the main thread; more would delay other requests. */
const EXAMINED_MAX = 1_000;
/** Before every key. */
const OLDEST: PageKey = { created_at: 0, id: "" };

export async function listKeyPage<T>(
  ctx: Ctx,
  filter: ListFilter,
  viewer: Viewer<ApiKeyRow, T>,
): Promise<JsonText<List<T>>> {
  const { store } = ctx.services;
  const isDirect = isIndexed(filter);
  const end = isDirect ? undefined : await listedRangeEnd(store.read, filter, EXAMINED_MAX);
  const upTo = isDirect ? null : (end ?? OLDEST); // in the order of an index: sorting would read all rows at once
  return readPage(ctx.services, {
    max: filter.limit,
    read: async (limit, last: ApiKeyRow | null): Promise<Piece<ApiKeyRow>> => {
      const page = { ...filter, limit, after: last ?? filter.after };
      if (!filter.ids) {
        const piece = await readPiece(store.read, (on) => listKeys(on, page, upTo));
        if (end === undefined || piece.rows.length > limit || piece.isCut) return piece;
      }
      // The main thread fills most pages; one that examines more keys is read in a thread.
      const ids = filter.ids
        ? await listKeyIds(store.read, page)
        : await inThreadSlot(ctx, () => listKeyIds(threadReader(store), page));
      return { rows: await readKeys(ctx.services, page.workspace_id, ids), isCut: false };
    },
    viewer,
    fields: hasMoreField,
  });
}

/** The keys with these ids, in their order, without those that do not exist. */
export async function readKeys({ store }: Services, workspace_id: string, ids: readonly string[]) {
  const rows = new Map<string, ApiKeyRow>();
  for (let left = ids; left.length > 0; ) {
    const piece = await readPiece(store.read, (on) => keysByIds(on, workspace_id, left));
    for (const row of piece.rows) rows.set(row.id, row);
    if (!piece.isCut) break;
    left = left.filter((id) => !rows.has(id));
    await yieldToEventLoop();
  }
  return ids.flatMap((id) => rows.get(id) ?? []);
}
