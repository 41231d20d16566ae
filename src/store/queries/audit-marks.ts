// Marks of the last verification of each long audit chain.
import { rowBy, upsertRow } from "../engine/rows.ts";
import { countRows, statement } from "../engine/statement.ts";

export const markOf = rowBy("audit_marks", ["workspace_id"]);

export const saveMark = upsertRow(
  "audit_marks",
  ["workspace_id"],
  ["seq", "hash", "frontier", "verified_at", "broken_seq", "reason", "signature"],
);

/** Long chains whose last verification found an altered or missing row. */
export const countBrokenChains = statement<Record<string, never>>()((db) =>
  db.selectFrom("audit_marks").select(countRows).where("reason", "is not", null),
);

export const dropMarks = statement()((db) => db.deleteFrom("audit_marks"));

/** Chains of more than `rows` rows whose last whole verification was before `before`, or after `latest`. */
export const chainsDueForVerification = statement<{ rows: number; before: number; latest: number }>()((db, p) =>
  db
    .selectFrom("audit_heads as head")
    .leftJoin("audit_marks as mark", "mark.workspace_id", "head.workspace_id")
    .select("head.workspace_id")
    .where("head.seq", ">", p.rows)
    .where((eb) =>
      eb.or([
        eb("mark.verified_at", "is", null),
        eb("mark.verified_at", "<=", p.before),
        eb("mark.verified_at", ">", p.latest),
      ]),
    )
    .orderBy("head.workspace_id"),
);
