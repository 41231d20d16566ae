// Receipts of quota units that must be counted once: owed units by the caller's id, and returned leases. They are rows
// of kept_answers, which expire like those and have an index by a hash; what was charged is in their fingerprint.
import { sha256Hex } from "../../platform/crypto.ts";
import type { Tx } from "../../store/engine/tx.ts";
import { insertReplay, replayByKey } from "../../store/queries/idempotency-replays.ts";

/** `name` says what the receipt is for. */
type Receipt = { name: string; now: number };

/** Units that were charged under the receipt; undefined without one. */
export async function unitsOfReceipt(tx: Tx, { name, now }: Receipt): Promise<number | undefined> {
  const row = await replayByKey.first(tx, { key_hash: sha256Hex(name), now });
  return row && Number(row.fingerprint);
}

/** Replaces an earlier receipt of this name. */
export async function putReceipt(tx: Tx, { name, now }: Receipt, units: number, keptMs: number): Promise<void> {
  await insertReplay.run(tx, {
    key_hash: sha256Hex(name),
    fingerprint: String(units),
    status: 200,
    sealed_body: Buffer.alloc(0),
    created_at: now,
    expires_at: now + keptMs,
  });
}
