// Lists: a page ends at its number of rows or at the maximum size of a response, whichever comes first, with at least
// one row. A row may be half a megabyte, so rows are read and serialised in pieces: neither memory nor a turn of the
// event loop holds many wide ones at once.
import { LoopShare, yieldToEventLoop } from "../../platform/event-loop.ts";
import { readPiece } from "../../store/engine/piece.ts";
import type { Piece, Reader } from "../../store/engine/tx.ts";
import { LIST_MAX, type PageKey } from "../../store/queries/page.ts";
import type { Vendor } from "./actor.ts";
import type { Ctx, Services } from "./context.ts";
import { positionAfter, type NamedRecord } from "./env-access.ts";

export type List<T> = { object: "list"; data: T[]; has_more?: true };

/** `limit` is undefined for as many rows as a response holds. */
export type ListQuery = { after?: string | undefined; limit?: number | undefined };

/** Rows of one read. */
export const PIECE_ROWS = 500;
/** The same of tables whose rows may be hundreds of kilobytes. */
export const WIDE_PIECE_ROWS = 100;

/** How long rows are serialised before other requests get a turn. */
const TURN_MS = 4;
/** Text is encoded when it has this length, so that no turn encodes a whole page. */
const CHUNK_CHARS = 64 * 1024;

/** A value of type T as JSON: text, or encoded chunks of it if it is long. */
export class JsonText<T> {
  readonly body: string | readonly Uint8Array[];

  constructor(body: JsonText<T>["body"]) {
    this.body = body;
  }

  parse(): T {
    const { body } = this;
    return JSON.parse(typeof body === "string" ? body : Buffer.concat(body).toString()) as T;
  }
}

/** A page of which each row is serialised once. */
class ListPage<R, T> {
  rows = 0;
  /** The last row on the page. */
  last: R | null = null;
  #bytesLeft: number;
  readonly #chunks: Uint8Array[] = [];
  #text = '{"object":"list","data":[';

  constructor(bytesMax: number) {
    this.#bytesLeft = bytesMax;
  }

  /** False if the page is full without it. */
  add(row: R, item: T): boolean {
    const text = JSON.stringify(item);
    this.#bytesLeft -= Buffer.byteLength(text) + 1;
    if (this.#bytesLeft < 0 && this.rows > 0) return false;
    this.#text += this.rows === 0 ? text : `,${text}`;
    if (this.#text.length >= CHUNK_CHARS) {
      this.#chunks.push(Buffer.from(this.#text));
      this.#text = "";
    }
    this.rows++;
    this.last = row;
    return true;
  }

  end<F extends object>(fields: F): JsonText<{ object: "list"; data: T[] } & F> {
    const rest = JSON.stringify(fields).slice(1);
    const text = `${this.#text}]${rest === "}" ? "" : ","}${rest}`;
    return new JsonText(this.#chunks.length === 0 ? text : [...this.#chunks, Buffer.from(text)]);
  }
}

/** `last`: the last row on the page. `hasMore`: there are rows behind it. */
type PageEnd<R> = { last: R | null; hasMore: boolean };

/** How to show the rows of a piece. */
export type Viewer<R, T> = (rows: R[]) => ((row: R) => T) | Promise<(row: R) => T>;

type PageOptions<R, T, F> = {
  max: number;
  /** The maximum size of a response by default. */
  bytesMax?: number | undefined;
  /** Rows of one read; PIECE_ROWS by default. */
  pieceRows?: number;
  /** Up to `limit` rows after the last one, and one more when there are more. A cut piece has at least one row. */
  read: (limit: number, last: R | null) => Promise<Piece<R>>;
  viewer: Viewer<R, T>;
  /** What the page says besides its rows. */
  fields: (end: PageEnd<R>) => F;
};

export async function readPage<R, T, F extends object>(
  { settings }: Services,
  { max, bytesMax = settings.answer_max_bytes, pieceRows = PIECE_ROWS, read, viewer, fields }: PageOptions<R, T, F>,
): Promise<JsonText<{ object: "list"; data: T[] } & F>> {
  const page = new ListPage<R, T>(bytesMax);
  const end = (hasMore: boolean) => page.end(fields({ last: page.last, hasMore }));
  for (;;) {
    const limit = Math.min(pieceRows, max - page.rows); // 0 after a cut piece that filled the page: are there more?
    const { rows, isCut } = await read(limit, page.last);
    const view = await viewer(rows);
    const loop = new LoopShare(TURN_MS);
    for (const row of rows.slice(0, limit)) {
      if (!page.add(row, view(row))) return end(true);
      if (loop.isDue) await loop.yieldIfDue();
    }
    const hasMore = rows.length > limit;
    if (!hasMore && !isCut) return end(false);
    if (hasMore && page.rows >= max) return end(true);
    await yieldToEventLoop();
  }
}

type RecordPage = { workspace_id: string; after: PageKey | null; limit: number };

type RecordList<R, T> = Pick<PageOptions<R, T, unknown>, "bytesMax" | "pieceRows" | "viewer"> & {
  /** Finds the record that a page follows. */
  find: { first(on: Reader, id: { workspace_id: string; id: string }): Promise<NamedRecord | undefined> };
  rows: (on: Reader, page: RecordPage) => Promise<R[]>;
  /** Rows of a page whose query has no limit; LIST_MAX by default. */
  max?: number;
};

/** A list of the workspace's records, newest first, that is paged by the id of the last one. */
export async function listRecords<R extends PageKey, T>(
  { services, actor }: Ctx<Vendor>,
  query: ListQuery,
  { find, rows, max = LIST_MAX, ...list }: RecordList<R, T>,
): Promise<JsonText<List<T>>> {
  const { read } = services.store;
  const { workspace_id } = actor;
  const after = query.after ? positionAfter(actor, await find.first(read, { workspace_id, id: query.after })) : null;
  const readRows = (limit: number, last: R | null) =>
    readPiece(read, (on) => rows(on, { workspace_id, after: last ?? after, limit }));
  return readPage(services, { ...list, max: query.limit ?? max, read: readRows, fields: hasMoreField });
}

export function hasMoreField({ hasMore }: PageEnd<unknown>): { has_more?: true } {
  return hasMore ? { has_more: true } : {};
}

/** A short list of narrow rows. `rows` holds `max` + 1 rows when there are more. */
export function listOf<R, T>(rows: R[], max: number, view: (row: R) => T): List<T> {
  const data = rows.slice(0, max).map((row) => view(row));
  return rows.length > max ? { object: "list", data, has_more: true } : { object: "list", data };
}
