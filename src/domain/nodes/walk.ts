// Walks the nodes of a project. It may have 20,000 of them, so they are read in pieces, and other requests run in
// between.
import { yieldToEventLoop } from "../../platform/event-loop.ts";
import type { NodePosition } from "../../store/queries/nodes.ts";

const PIECE_NODES = 500;

/** `read` returns up to `limit` nodes after a position. */
export async function* walkNodes<R extends NodePosition>(
  read: (after: NodePosition & { limit: number }) => Promise<R[]>,
): AsyncGenerator<R[]> {
  let last: NodePosition | undefined = { node_id: "", env_scope: "" };
  while (last) {
    const { node_id, env_scope } = last;
    const piece: R[] = await read({ node_id, env_scope, limit: PIECE_NODES });
    yield piece;
    last = piece[PIECE_NODES - 1];
    if (last) await yieldToEventLoop();
  }
}
