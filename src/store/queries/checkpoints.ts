// Signed checkpoints of the audit chains. A stored note is only replaced by one of the same size under a new key.
import { statement } from "../engine/statement.ts";
import type { AuditCheckpointRow } from "../schema/tables.ts";

export const newestCheckpoint = statement<{ workspace_id: string }>()((db, p) =>
  db
    .selectFrom("audit_checkpoints")
    .selectAll()
    .where("workspace_id", "=", p.workspace_id)
    .orderBy("seq", "desc")
    .limit(1),
);

/** Changes no row if the same note is stored already: two processes may sign the same head. */
export const storeCheckpoint = statement<AuditCheckpointRow>()((db, p) =>
  db
    .insertInto("audit_checkpoints")
    .values({
      workspace_id: p.workspace_id,
      seq: p.seq,
      note: p.note,
      frontier: p.frontier,
      created_at: p.created_at,
    })
    .onConflict((oc) =>
      oc
        .columns(["workspace_id", "seq"])
        .doUpdateSet((eb) => ({
          note: eb.ref("excluded.note"),
          frontier: eb.ref("excluded.frontier"),
          created_at: eb.ref("excluded.created_at"),
        }))
        .whereRef("audit_checkpoints.note", "<>", "excluded.note"),
    ),
);

/** Chains with at least `rows` rows that their newest checkpoint does not cover. */
export const chainsDueForCheckpoint = statement<{ rows: number }>()((db, p) =>
  db
    .selectFrom("audit_heads as head")
    .select("head.workspace_id")
    .where((eb) =>
      eb(
        eb(
          "head.seq",
          "-",
          eb.fn.coalesce(
            eb
              .selectFrom("audit_checkpoints as point")
              .select((max) => max.fn.max<number>("point.seq").as("seq"))
              .whereRef("point.workspace_id", "=", "head.workspace_id"),
            eb.lit(0),
          ),
        ),
        ">=",
        p.rows,
      ),
    )
    .orderBy("head.workspace_id"),
);
