// Bytes written by each environment of a workspace on a UTC day.
import { sql } from "kysely";
import { deleteWhere } from "../engine/delete-piece.ts";
import { statement } from "../engine/statement.ts";
import type { WrittenBytesRow } from "../schema/tables.ts";

/** Returns the day's sum. */
export const addWrittenBytes = statement<WrittenBytesRow>()((db, p) =>
  db
    .insertInto("written_bytes")
    .values({ workspace_id: p.workspace_id, env: p.env, day: p.day, bytes: p.bytes })
    .onConflict((oc) =>
      oc
        .columns(["workspace_id", "env", "day"])
        .doUpdateSet({ bytes: sql<number>`written_bytes.bytes + excluded.bytes` }),
    )
    .returning("bytes"),
);

export const writtenSince = statement<{ day: number }>()((db, p) =>
  db.selectFrom("written_bytes").selectAll().where("day", ">=", p.day),
);

export const reapWrittenBytes = deleteWhere("written_bytes", ["workspace_id", "env", "day"], "day", "<");
