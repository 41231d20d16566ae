// Lists: a page ends at its number of rows or at the maximum size of a response, whichever comes first, with at least
// one row. Long lists are read in pieces, so that neither memory nor a turn of the event loop holds all rows at once.
import { yieldToEventLoop } from "../../platform/event-loop.ts";
import type { Services } from "./context.ts";

export type List<T> = { object: "list"; data: T[]; has_more?: true };

/** `limit` is undefined for as many rows as a response holds. */
export type ListQuery = { after?: string | undefined; limit?: number | undefined };

/** Rows per read, and per turn of the event loop. */
export const PIECE_ROWS = 500;

/** A record is never larger as JSON: a short page of them need not be measured. */
const ROW_BYTES_MAX = 128 * 1024;

class ListPage<T> {
  readonly data: T[] = [];
  #bytesLeft: number;

  constructor(bytesMax: number) {
    this.#bytesLeft = bytesMax;
  }

  /** False if the page is full without it. */
  add(item: T): boolean {
    this.#bytesLeft -= Buffer.byteLength(JSON.stringify(item)) + 1;
    return (this.#bytesLeft >= 0 || this.data.length === 0) && this.data.push(item) > 0;
  }

  list(more: boolean): List<T> {
    return more ? { object: "list", data: this.data, has_more: true } : { object: "list", data: this.data };
  }
}

/** A short list. `rows` holds `max` + 1 rows when there are more. */
export function listOf<R, T>(rows: R[], max: number, view: (row: R) => T): List<T> {
  const data = rows.slice(0, max).map((row) => view(row));
  return rows.length > max ? { object: "list", data, has_more: true } : { object: "list", data };
}

/** A list that was read at once and whose rows may be large. */
export function cutListOf<R, T>({ settings }: Services, rows: R[], max: number, view: (row: R) => T): List<T> {
  if (max * ROW_BYTES_MAX <= settings.answer_max_bytes) return listOf(rows, max, view);
  const page = new ListPage<T>(settings.answer_max_bytes);
  const isFull = !rows.slice(0, max).every((row) => page.add(view(row)));
  return page.list(isFull || rows.length > max);
}

/** `read` returns up to `limit` rows after the last one, and one more when there are more. */
export async function readList<R, T>(
  { settings }: Services,
  max: number,
  read: (limit: number, last: R | null) => Promise<R[]>,
  view: (row: R) => T,
): Promise<List<T>> {
  const page = new ListPage<T>(settings.answer_max_bytes);
  for (let last: R | null = null; ; ) {
    const limit = Math.min(PIECE_ROWS, max - page.data.length);
    const rows = await read(limit, last);
    for (const row of rows.slice(0, limit)) if (!page.add(view(row))) return page.list(true);
    if (rows.length <= limit || page.data.length >= max) return page.list(rows.length > limit);
    last = rows[limit - 1] as R;
    await yieldToEventLoop();
  }
}
