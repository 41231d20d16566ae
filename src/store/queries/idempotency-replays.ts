// Idempotency replays: stored responses of our own POST endpoints. The table keeps its first name, kept_answers.
import { sql } from "kysely";
import { deletePiece } from "../engine/delete-piece.ts";
import { statement } from "../engine/statement.ts";
import type { IdempotencyReplayRow } from "../schema/tables.ts";

export const replayByKey = statement<{ key_hash: string; now: number }>()((db, p) =>
  db.selectFrom("kept_answers").selectAll().where("key_hash", "=", p.key_hash).where("expires_at", ">", p.now),
);

export const insertReplay = statement<IdempotencyReplayRow>()((db, p) =>
  db
    .insertInto("kept_answers")
    .values({
      key_hash: p.key_hash,
      fingerprint: p.fingerprint,
      status: p.status,
      sealed_body: p.sealed_body,
      created_at: p.created_at,
      expires_at: p.expires_at,
    })
    .onConflict((oc) =>
      oc.column("key_hash").doUpdateSet((eb) => ({
        fingerprint: eb.ref("excluded.fingerprint"),
        status: eb.ref("excluded.status"),
        sealed_body: eb.ref("excluded.sealed_body"),
        created_at: eb.ref("excluded.created_at"),
        expires_at: eb.ref("excluded.expires_at"),
      })),
    ),
);

export const reapIdempotencyReplays = deletePiece<{ now: number }>()(
  "kept_answers",
  ["key_hash"],
  (p) => sql`expires_at <= ${p.now}`,
);
