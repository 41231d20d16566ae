// Finds a page: reads candidates in the order of an index until the page is full, there are no more, or enough were
// examined.
import { LoopShare, yieldToEventLoop } from "../../platform/event-loop.ts";
import type { Services } from "../core/context.ts";
import type { ListCursor, Position } from "../core/cursor.ts";
import { readPage, type JsonText, type Viewer } from "../core/list.ts";

/** Records that one page examines at most, and those of one read. */
export const EXAMINED_MAX = 5_000;
export const PIECE_ROWS = 250;
/** The first read is of little more than a page: most of what an index leads to belongs to it. */
const FIRST_READ = 1.25;
/** A search yields to the event loop after this time. */
const TURN_MS = 4;

/** A record in the order of the list. `isFound` is called once, when it is examined. */
export type Candidate<R> = { record: R; position: Position; isFound: () => boolean };
/** `last`: where the next piece begins; null: there is none. */
export type Piece<R> = { candidates: Candidate<R>[]; last: Position | null };

/** One order of a list. `shape`: the types of its positions. */
export type IndexScan<R> = {
  shape: readonly ("string" | "number")[];
  /** Up to `rows` candidates, or more where several ranges are read at once. */
  read: (after: Position | null, rows: number) => Promise<Piece<R>>;
};

type Found<R> = { found: Candidate<R>[]; end: Position | null };

/** Up to `limit` records, and where to continue; `end` is null when there is nothing more. */
export async function findPage<R>({ read }: IndexScan<R>, limit: number, after: Position | null): Promise<Found<R>> {
  const found: Candidate<R>[] = [];
  let last = after;
  let rows = Math.min(Math.ceil(limit * FIRST_READ) + 1, PIECE_ROWS);
  for (let examined = 0; examined < EXAMINED_MAX; ) {
    const loop = new LoopShare(TURN_MS); // SQLite holds the event loop while it reads
    const piece = await read(last, rows);
    examined += Math.max(piece.candidates.length, rows);
    rows = Math.min(rows * 2, PIECE_ROWS);
    for (const candidate of piece.candidates) {
      const isFound = candidate.isFound();
      if (isFound && found.length === limit) return { found, end: found.at(-1)?.position ?? null };
      if (isFound) found.push(candidate);
      await loop.yieldIfDue();
    }
    if (piece.last === null) return { found, end: null };
    last = piece.last;
    await yieldToEventLoop();
  }
  return { found, end: last };
}

export type FoundPage<T> = { object: "list"; data: T[]; next_cursor: string | null };

/** Shows what was found. `rows`: the records in their order; `pages`: writes the cursor of the next page. */
export function showFound<R extends { id: string }, T>(
  services: Services,
  { found, end }: Found<{ id: string }>,
  { limit, rows, viewer, pages }: { limit: number; rows: R[]; viewer: Viewer<R, T>; pages: ListCursor },
): Promise<JsonText<FoundPage<T>>> {
  const positions = new Map(found.map(({ record, position }) => [record.id, position]));
  return readPage(services, {
    max: limit,
    pieceRows: limit,
    read: async () => ({ rows, isCut: false }),
    viewer,
    fields: ({ last, hasMore }) => {
      const next = hasMore && last ? positions.get(last.id) : end;
      return { next_cursor: next ? pages.write(next) : null };
    },
  });
}
