// Reads of the audit chain; only src/store/engine/audit-ledger.ts writes it. Filters by environment before the limit: a page
// filtered afterwards would reveal how many rows are hidden.
import { sql, type RawBuilder, type SqlBool } from "kysely";
import { compileQuery, statement, type Dialect, type Reader } from "../engine/statement.ts";
import type { AuditLogRow } from "../schema/tables.ts";

export type AuditFilter = {
  workspace_id: string;
  after_seq: number;
  /** Exclusive; absent for the newest row. */
  before_seq?: number | undefined;
  order?: "asc" | "desc" | undefined;
  actions?: readonly string[] | undefined;
  actor_type?: AuditLogRow["actor_type"] | undefined;
  actor_id?: string | undefined;
  target_type?: string | undefined;
  target_id?: string | undefined;
  limit: number;
  /** "test": without rows about keys and grants of the live environment; null = all rows. */
  env: "test" | null;
};

/** Spelled as in the index audit_log_visible, which holds no other rows. */
const visibleToTest: Record<Dialect, RawBuilder<SqlBool>> = {
  sqlite: sql`(target_type not in ('api_key', 'secret_key', 'quota_grant') or instr(payload, '"env":"test"') > 0)`,
  postgres: sql`(target_type not in ('api_key', 'secret_key', 'quota_grant') or strpos(payload, '"env":"test"') > 0)`,
};

/** In the order of seq. Returns one row more than the limit if there are more. */
export function listAuditRows(on: Reader, filter: AuditFilter): Promise<AuditLogRow[]> {
  const { before_seq, actions, actor_type, actor_id, target_type, target_id } = filter;
  return on.all<AuditLogRow>(
    compileQuery(on, (db) => {
      let query = db
        .selectFrom("audit_log")
        .selectAll()
        .where("workspace_id", "=", filter.workspace_id)
        .where("seq", ">", filter.after_seq)
        .orderBy("seq", filter.order ?? "asc")
        .limit(filter.limit + 1);
      if (before_seq !== undefined) query = query.where("seq", "<", before_seq);
      if (actions) query = query.where("action", "in", actions);
      if (actor_type) query = query.where("actor_type", "=", actor_type);
      if (actor_id) query = query.where("actor_id", "=", actor_id);
      if (target_type) query = query.where("target_type", "=", target_type);
      if (target_id) query = query.where("target_id", "=", target_id);
      return filter.env ? query.where(visibleToTest[on.dialect]) : query;
    }),
  );
}

export const occurredAt = statement<{ workspace_id: string; seq: number }>()((db, p) =>
  db.selectFrom("audit_log").select("occurred_at").where("workspace_id", "=", p.workspace_id).where("seq", "=", p.seq),
);

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
