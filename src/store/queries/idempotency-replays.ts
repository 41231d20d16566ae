// Idempotency replays: stored responses of our own POST endpoints. The table keeps its first name, kept_answers.
import { upsertRow } from "../engine/rows.ts";
import { deleteWhere } from "../engine/delete-piece.ts";
import { statement } from "../engine/statement.ts";

export const replayByKey = statement<{ key_hash: string; now: number }>()((db, p) =>
  db.selectFrom("kept_answers").selectAll().where("key_hash", "=", p.key_hash).where("expires_at", ">", p.now),
);

export const insertReplay = upsertRow(
  "kept_answers",
  ["key_hash"],
  ["fingerprint", "status", "sealed_body", "created_at", "expires_at"],
);

export const reapIdempotencyReplays = deleteWhere("kept_answers", ["key_hash"], "expires_at", "<=");
