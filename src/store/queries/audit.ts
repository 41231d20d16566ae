// Reads of the audit chain; only src/store/engine/audit-ledger.ts writes it. Filters by environment before the limit: a page
// filtered afterwards would reveal how many rows are hidden.
import { sql, type RawBuilder, type SqlBool } from "kysely";
import { compileQuery, statement, type Dialect, type Reader } from "../engine/statement.ts";
import type { AuditLogRow } from "../schema/tables.ts";

export type AuditFilter = {
  workspace_id: string;
  after_seq: number;
  limit: number;
  /** "test": without rows about keys of the live environment; null = all rows. */
  env: "test" | null;
};

/** Must be spelled as in the index audit_log_test, which holds these rows and no others. */
const visibleToTest: Record<Dialect, RawBuilder<SqlBool>> = {
  sqlite: sql`(target_type not in ('api_key', 'secret_key') or instr(payload, '"env":"test"') > 0)`,
  postgres: sql`(target_type not in ('api_key', 'secret_key') or strpos(payload, '"env":"test"') > 0)`,
};

/** Ascending. Returns one row more than the limit if there are more. */
export function listAuditRows(on: Reader, filter: AuditFilter): Promise<AuditLogRow[]> {
  return on.all<AuditLogRow>(
    compileQuery(on, (db) => {
      const query = db
        .selectFrom("audit_log")
        .selectAll()
        .where("workspace_id", "=", filter.workspace_id)
        .where("seq", ">", filter.after_seq)
        .orderBy("seq")
        .limit(filter.limit + 1);
      return filter.env ? query.where(visibleToTest[on.dialect]) : query;
    }),
  );
}

/** The sequence number and hash of the newest row. An empty chain has no head. */
export const headOf = statement<{ workspace_id: string }>()((db, p) =>
  db.selectFrom("audit_heads").select(["seq", "hash"]).where("workspace_id", "=", p.workspace_id),
);

type Position = { workspace_id: string; seq: number; limit: number };

/** Rows of all chains in their order, for jobs that read the whole log in pieces. */
export const rowsAfter = statement<Position>()((db, p) =>
  db
    .selectFrom("audit_log")
    .select(["workspace_id", "seq", "action", "actor_type", "actor_id", "target_id", "payload"])
    .where(sql<boolean>`(workspace_id, seq) > (${p.workspace_id}, ${p.seq})`)
    .orderBy("workspace_id")
    .orderBy("seq")
    .limit(p.limit),
);

export const hashesBetween = statement<{ workspace_id: string; after: number; upTo: number; limit: number }>()(
  (db, p) =>
    db
      .selectFrom("audit_log")
      .select(["seq", "hash"])
      .where("workspace_id", "=", p.workspace_id)
      .where("seq", ">", p.after)
      .where("seq", "<=", p.upTo)
      .orderBy("seq")
      .limit(p.limit),
);
