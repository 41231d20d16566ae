// Notices of keys that are about to end: what was reported, and when a workspace got its digest.
import { sql } from "kysely";
import { deletePiece } from "../engine/delete-piece.ts";
import { bulkInsert } from "../engine/bulk-insert.ts";
import { compileQuery, statement } from "../engine/statement.ts";
import type { Reader } from "../engine/tx.ts";
import type { KeyNoticeRow } from "../schema/tables.ts";
import { isIn } from "./id-lists.ts";

/** Says that the workspace got its digest; changes nothing where it did. */
export const claimDigest = statement<{ workspace_id: string; day: number }>()((db, p) =>
  db
    .insertInto("key_digests")
    .values({ workspace_id: p.workspace_id, day: p.day })
    .onConflict((oc) => oc.columns(["workspace_id", "day"]).doNothing()),
);

export const digestOf = statement<{ workspace_id: string; day: number }>()((db, p) =>
  db.selectFrom("key_digests").select("day").where("workspace_id", "=", p.workspace_id).where("day", "=", p.day),
);

export const insertNotices = bulkInsert<KeyNoticeRow>(["key_id", "kind", "threshold", "due_at"], (db, rows) =>
  db
    .insertInto("key_notices")
    .values(rows)
    .onConflict((oc) => oc.columns(["key_id", "kind", "threshold", "due_at"]).doNothing()),
);

export function noticesOf(on: Reader, key_ids: readonly string[]): Promise<KeyNoticeRow[]> {
  if (key_ids.length === 0) return Promise.resolve([]);
  return on.all<KeyNoticeRow>(
    compileQuery(on, (db, dialect) =>
      db
        .selectFrom("key_notices")
        .selectAll()
        .where(isIn("key_notices.key_id", key_ids, dialect)),
    ),
  );
}

/** Deletes notices of keys that have ended, and of idle keys that were due before `idleBefore`. */
export const reapNotices = deletePiece<{ before: number; idleBefore: number }>()(
  "key_notices",
  ["key_id", "kind", "threshold", "due_at"],
  (p) => sql`due_at < ${p.before} and (kind = 'expiry' or due_at < ${p.idleBefore} or exists (
    select 1 from api_keys where api_keys.id = key_notices.key_id and api_keys.revoked_at is not null))`,
);

export const reapDigests = deletePiece<{ before: number }>()(
  "key_digests",
  ["workspace_id", "day"],
  (p) => sql`day < ${p.before}`,
);
