// Reads rows of unknown width: bounded by what they contain, because a few of them may be megabytes.
import type { Piece, Query, Reader } from "./tx.ts";

/** SQLite decodes as much within 4 ms, whatever the characters are. */
export const PIECE_CHARS = 128 * 1024;

/** Runs a query of rows in their order: as many of the first ones as are decoded in one turn of the event loop. */
export async function readPiece<R>(
  on: Reader,
  read: (on: Reader) => Promise<R[]>,
  chars = PIECE_CHARS,
): Promise<Piece<R>> {
  let isCut = false;
  const all = async <T>(query: Query): Promise<T[]> => {
    if (!on.allWithin) return on.all<T>(query);
    const piece = await on.allWithin<T>(query, chars);
    isCut = piece.isCut;
    return piece.rows;
  };
  const rows = await read({
    dialect: on.dialect,
    all,
    first: (query) => on.first(query),
    firstMemoized: (query) => on.firstMemoized(query),
  });
  return { rows, isCut };
}
