// The write path for data that is not a control-plane change (counters, last-used times, idempotency replays): no audit
// row and no policy version, but the same durable group commit. Without an owner it is work of the service itself.
import type { Owner } from "../../fairness/owners.ts";
import type { Statement } from "../../store/engine/statement.ts";
import type { Tx } from "../../store/engine/tx.ts";
import type { Store } from "../../store/store.ts";

export function record<T>(
  services: { readonly store: Store },
  work: (tx: Tx) => Promise<T>,
  options: { batch?: boolean; owner?: Owner | undefined; locks?: readonly string[] } = {},
): Promise<T> {
  return services.store.write({
    chains: [],
    locks: options.locks,
    batch: options.batch ?? false,
    owner: options.owner,
    work: async (tx) => ({ value: await work(tx), entries: [] }),
  });
}

/** Every other writer waits for a piece. */
const PIECE_ROWS = 1_000;

/** Runs a delete of store/engine/delete-piece.ts until no row is due. Returns their number. */
export function reap<P>(
  services: { readonly store: Store },
  statement: Statement<P & { limit: number }, unknown>,
  due: P,
): Promise<number> {
  return inPieces(services, (tx, limit) => statement.run(tx, { ...due, limit }));
}

/** Deletes or changes rows in a transaction for each piece: there may be too many for one. Returns their number. */
export async function inPieces(
  services: { readonly store: Store },
  piece: (tx: Tx, limit: number) => Promise<number>,
): Promise<number> {
  for (let total = 0; ; ) {
    const rows = await record(services, (tx) => piece(tx, PIECE_ROWS));
    total += rows;
    if (rows < PIECE_ROWS) return total;
  }
}
