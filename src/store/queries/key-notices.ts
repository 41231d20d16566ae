// Notices of keys that are about to end: what was reported, and when a workspace got its digest.
import { sql } from "kysely";
import { deletePiece, deleteWhere } from "../engine/delete-piece.ts";
import { bulkInsert } from "../engine/bulk-insert.ts";
import { rowBy, upsertRow } from "../engine/rows.ts";
import { selectRows, changeRows, statement } from "../engine/statement.ts";
import type { Reader, Tx } from "../engine/tx.ts";
import type { KeyNoticeRow } from "../schema/tables.ts";
import { isIn } from "./id-lists.ts";

/** Says that the workspace got its digest; changes nothing if it did. */
export const claimDigest = upsertRow("key_digests", ["workspace_id", "day"], []);

export const digestOf = rowBy("key_digests", ["workspace_id", "day"]);

export const insertNotices = bulkInsert<KeyNoticeRow>(["key_id", "kind", "threshold", "due_at"], (db, rows) =>
  db
    .insertInto("key_notices")
    .values(rows)
    .onConflict((oc) => oc.columns(["key_id", "kind", "threshold", "due_at"]).doNothing()),
);

export function noticesOf(on: Reader, key_ids: readonly string[]): Promise<KeyNoticeRow[]> {
  if (key_ids.length === 0) return Promise.resolve([]);
  return selectRows(on, (db, dialect) =>
    db
      .selectFrom("key_notices")
      .selectAll()
      .where(isIn("key_notices.key_id", key_ids, dialect)),
  );
}

/** Deletes notices of keys that have expired, and of idle keys that were due before `idleBefore`. */
export const reapNotices = deletePiece<{ before: number; idleBefore: number }>()(
  "key_notices",
  ["key_id", "kind", "threshold", "due_at"],
  (p) => sql`due_at < ${p.before} and (kind = 'expiry' or due_at < ${p.idleBefore})`,
);

/** The key of a notice, some notices behind `after` in the order of keys. */
export const noticedKeyBehind = statement<{ after: string; skipped: number }>()((db, p) =>
  db
    .selectFrom("key_notices")
    .select("key_id")
    .where("key_id", ">", p.after)
    .orderBy("key_id")
    .limit(1)
    .offset(p.skipped),
);

export const revokedNotices = statement<{ after: string; upTo: string }>()((db, p) =>
  db
    .selectFrom("key_notices")
    .innerJoin("api_keys", "api_keys.id", "key_notices.key_id")
    .select("key_notices.key_id")
    .distinct()
    .where("key_notices.key_id", ">", p.after)
    .where("key_notices.key_id", "<=", p.upTo)
    .where("api_keys.revoked_at", "is not", null),
);

export function deleteNotices(tx: Tx, key_ids: readonly string[]): Promise<number> {
  return changeRows(tx, (db, dialect) =>
    db.deleteFrom("key_notices").where(isIn("key_notices.key_id", key_ids, dialect)),
  );
}

export const reapDigests = deleteWhere("key_digests", ["workspace_id", "day"], "day", "<");
