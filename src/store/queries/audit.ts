// Reads of the audit chain; only src/store/engine/audit-ledger.ts writes it. What is hidden from a test principal is
// left out before the limit: a page filtered afterwards would reveal how many rows are hidden.
import { sql, type RawBuilder, type SqlBool } from "kysely";
import { rowBy } from "../engine/rows.ts";
import { selectRows, statement, type Builder, type Params } from "../engine/statement.ts";
import type { Dialect, Reader } from "../engine/tx.ts";
import type { AuditLogRow } from "../schema/tables.ts";
import { isIn } from "./id-lists.ts";

/**
 * An index of the chain, each in the order of seq: all rows, those that a test principal may list (none about keys and
 * grants of the live environment), or those with one value of a column.
 */
export type AuditWalk =
  | { by: "chain" }
  | { by: "visible" }
  | { by: "target_id" | "actor_id" | "actor_type" | "action"; value: string };

export type AuditFilter = {
  actions?: readonly string[] | undefined;
  actor_type?: AuditLogRow["actor_type"] | undefined;
  actor_id?: string | undefined;
  /** Only what a test principal may list. */
  isVisible?: boolean | undefined;
};

export type AuditSlice = {
  workspace_id: string;
  walk: AuditWalk;
  after_seq: number;
  /** Exclusive; absent for the newest row. */
  before_seq?: number | undefined;
  order?: "asc" | "desc" | undefined;
};

/** Not in the indexes by action and by actor, so that creating a key with a secret key does not pay for them. */
export const UNINDEXED_ACTION = "api_key.created";
export const UNINDEXED_ACTOR = "secret_key";

const otherActors = sql<SqlBool>`actor_type <> 'secret_key'`;

/** Spelled as in the partial indexes, or neither database would use them. */
const indexed = {
  target_id: [],
  actor_id: [otherActors],
  actor_type: [otherActors],
  action: [sql<SqlBool>`action <> 'api_key.created'`],
};

const visibleToTest: Record<Dialect, RawBuilder<SqlBool>> = {
  sqlite: sql`(target_type not in ('api_key', 'secret_key', 'quota_grant') or instr(payload, '"env":"test"') > 0)`,
  postgres: sql`(target_type not in ('api_key', 'secret_key', 'quota_grant') or strpos(payload, '"env":"test"') > 0)`,
};

function walkQuery(db: Builder, dialect: Dialect, { workspace_id, walk, order = "asc", ...slice }: AuditSlice) {
  const rows = db
    .selectFrom("audit_log")
    .where("workspace_id", "=", workspace_id)
    .where("seq", ">", slice.after_seq)
    .where("seq", "<", slice.before_seq ?? Number.MAX_SAFE_INTEGER)
    .orderBy("seq", order);
  if (walk.by === "chain") return rows;
  if (walk.by === "visible") return rows.where(visibleToTest[dialect]);
  const { by, value } = walk;
  return rows.where((eb) => eb.and([eb(by, "=", value as AuditLogRow["actor_type"]), ...indexed[by]]));
}

/** In the order of seq. Returns one row more than the limit if there are more. */
export function listAuditRows(on: Reader, slice: AuditSlice, limit: number): Promise<AuditLogRow[]> {
  return selectRows(on, (db, dialect) =>
    walkQuery(db, dialect, slice)
      .selectAll()
      .limit(limit + 1),
  );
}

/**
 * The same of the first `examined` rows, filtered: however few of them match, no others are read, and no payload of
 * those that do not match.
 */
export function filterAuditRows(
  on: Reader,
  slice: AuditSlice,
  filter: AuditFilter,
  { examined, limit }: { examined: number; limit: number },
): Promise<AuditLogRow[]> {
  const { actions, actor_type, actor_id, isVisible } = filter;
  return selectRows(on, (db, dialect) => {
    const walked = walkQuery(db, dialect, slice)
      .select(["seq as at", "action", "actor_type", "actor_id"])
      .limit(examined)
      .as("walked");
    let query = db
      .selectFrom(walked)
      .innerJoin("audit_log", (join) =>
        join.on("audit_log.workspace_id", "=", slice.workspace_id).onRef("audit_log.seq", "=", "walked.at"),
      )
      .selectAll("audit_log")
      .orderBy("walked.at", slice.order ?? "asc")
      .limit(limit + 1);
    if (actions) query = query.where(isIn(sql.ref<string>("walked.action"), actions, dialect));
    if (actor_type) query = query.where("walked.actor_type", "=", actor_type);
    if (actor_id) query = query.where("walked.actor_id", "=", actor_id);
    return isVisible ? query.where(visibleToTest[dialect]) : query;
  });
}

/** The number of the last of the first `examined` rows; undefined if there are fewer. */
export async function lastExamined(on: Reader, slice: AuditSlice, examined: number): Promise<number | undefined> {
  const [last] = await selectRows(on, (db, dialect) =>
    walkQuery(db, dialect, slice)
      .select("seq")
      .limit(1)
      .offset(examined - 1),
  );
  return last?.seq;
}

type Rotation = { workspace_id: string; id: string; successor_id: string };

/** Whether the payload of a rotation names the successor. */
function namesSuccessor(successor_id: string, dialect: Dialect) {
  const successor = sql`'"successor_id":"' || cast(${successor_id} as text) || '"'`;
  const position = dialect === "sqlite" ? sql`instr(payload, ${successor})` : sql`strpos(payload, ${successor})`;
  return sql<SqlBool>`${position} > 0`;
}

/** The rotation of a key to the given successor. */
function rotation(db: Builder, p: Params<Rotation>, dialect: Dialect, action: string) {
  return db
    .selectFrom("audit_log")
    .select("seq")
    .where("workspace_id", "=", p.workspace_id)
    .where("target_id", "=", p.id)
    .where("action", "=", action)
    .where(namesSuccessor(p.successor_id, dialect))
    .limit(1);
}

/** None if the vendor made it. */
export const customersRotation = statement<Rotation>()((db, p, dialect) =>
  rotation(db, p, dialect, "api_key.rotated").where((eb) =>
    eb.or([eb("actor_type", "=", "embed_token"), eb("actor_type", "=", "api_key")]),
  ),
);

/** A secret key's rotation of itself; none if another actor rotated it. */
export const ownRotation = statement<Rotation>()((db, p, dialect) =>
  rotation(db, p, dialect, "secret_key.rotated").where("actor_id", "=", p.id),
);

export const occurredAt = statement<{ workspace_id: string; seq: number }>()((db, p) =>
  db.selectFrom("audit_log").select("occurred_at").where("workspace_id", "=", p.workspace_id).where("seq", "=", p.seq),
);

/** An empty chain has no head. */
export const headOf = rowBy("audit_heads", ["workspace_id"]);

type Position = { workspace_id: string; seq: number; limit: number };

/** Rows of all chains in their order, with the payload of those that made a secret key: others may be wide. */
export const secretKeyRowsAfter = statement<Position>()((db, p) =>
  db
    .selectFrom("audit_log")
    .select(["workspace_id", "seq", "action", "actor_type", "actor_id", "target_id"])
    .select(
      sql<string | null>`case when action in ('secret_key.created', 'secret_key.rotated') then payload end`.as(
        "payload",
      ),
    )
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
