// Reads of the audit chain; only src/store/engine/audit-ledger.ts writes it. Filters by environment before the limit: a page
// filtered afterwards would reveal how many rows are hidden.
import { sql } from "kysely";
import type { Env } from "../../kernel/credentials.ts";
import { compileQuery, statement, type Reader } from "../engine/statement.ts";
import type { AuditLogRow } from "../schema/tables.ts";

export type AuditFilter = {
  workspace_id: string;
  after_seq: number;
  limit: number;
  /** Omits rows about keys of other environments or of unknown keys; null = all rows. */
  env: Env | null;
};

/** Ascending. Returns one row more than the limit if there are more. */
export function listAuditRows(on: Reader, filter: AuditFilter): Promise<AuditLogRow[]> {
  return on.all<AuditLogRow>(
    compileQuery(on, (db) => {
      const query = db
        .selectFrom("audit_log as log")
        .selectAll("log")
        .where("log.workspace_id", "=", filter.workspace_id)
        .where("log.seq", ">", filter.after_seq)
        .orderBy("log.seq")
        .limit(filter.limit + 1);
      const { env } = filter;
      if (!env) return query;
      return query.where((eb) => {
        const key = eb
          .selectFrom("api_keys")
          .select("api_keys.id")
          .whereRef("api_keys.id", "=", "log.target_id")
          .where("api_keys.workspace_id", "=", filter.workspace_id)
          .where("api_keys.env", "=", env);
        const secret = eb
          .selectFrom("secret_keys")
          .select("secret_keys.id")
          .whereRef("secret_keys.id", "=", "log.target_id")
          .where("secret_keys.workspace_id", "=", filter.workspace_id)
          .where("secret_keys.env", "=", env);
        return eb.or([
          eb("log.target_type", "not in", ["api_key", "secret_key"]),
          eb.and([eb("log.target_type", "=", "api_key"), eb.exists(key)]),
          eb.and([eb("log.target_type", "=", "secret_key"), eb.exists(secret)]),
        ]);
      });
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
