// Usage series: the journal of counted batches, and the rollups that it is added to. Rollups are read, added to and
// written back, so a writer takes the lock first: for a moment there can be two processes that write.
import { sql } from "kysely";
import { bulkInsert } from "../engine/bulk-insert.ts";
import { findRows } from "../engine/find-rows.ts";
import { deleteBy, insertRow, rowBy, upsertRow } from "../engine/rows.ts";
import { deleteWhere } from "../engine/delete-piece.ts";
import { statement } from "../engine/statement.ts";
import type { Reader, Tx } from "../engine/tx.ts";
import { isInNumbers } from "./id-lists.ts";
import type { UsageGroup, UsageGroupRow, UsageRollupRow } from "../schema/tables.ts";

export const insertJournal = insertRow("usage_journal", ["id", "workspace_id", "created_at", "data"]);

/** The first workspace behind an id that has rows in the journal. */
export const nextJournalWorkspace = statement<{ after: string }>()((db, p) =>
  db
    .selectFrom("usage_journal")
    .select("workspace_id as id")
    .where("workspace_id", ">", p.after)
    .orderBy("workspace_id")
    .limit(1),
);

/** Sizes of a workspace's journal rows, oldest first. */
export const journalSizes = statement<{ workspace_id: string; limit: number }>()((db, p) =>
  db
    .selectFrom("usage_journal")
    .select(["id", sql<number>`octet_length(data)`.as("bytes")])
    .where("workspace_id", "=", p.workspace_id)
    .orderBy("id")
    .limit(p.limit),
);

/** A workspace's journal rows, oldest first. */
export const journalRows = statement<{ workspace_id: string; limit: number }>()((db, p) =>
  db.selectFrom("usage_journal").selectAll().where("workspace_id", "=", p.workspace_id).orderBy("id").limit(p.limit),
);

const deleteJournalRow = deleteBy("usage_journal", ["id"]);

export const journalState = statement<Record<string, never>>()((db) =>
  db
    .selectFrom("usage_journal")
    .select((eb) => [eb.fn.countAll<number>().as("rows"), eb.fn.min<number | null>("created_at").as("oldest_at")]),
);

/** The oldest batch of a workspace that the rollups lack. */
export const oldestJournalRow = statement<{ workspace_id: string }>()((db, p) =>
  db
    .selectFrom("usage_journal")
    .select((eb) => eb.fn.min<number | null>("created_at").as("created_at"))
    .where("workspace_id", "=", p.workspace_id),
);

/** Held until the transaction ends. On SQLite an open transaction excludes every other one anyway. */
export const lockRollups = statement<{ at: string }>()((db, p) =>
  db
    .insertInto("deployment")
    .values({ name: "usage_rollups_lock", value: p.at })
    .onConflict((oc) => oc.column("name").doUpdateSet({ value: p.at })),
);

const SEEN = ["workspace_id", "scope", "start"] as const;

export const seenNames = rowBy("usage_seen", SEEN);

export const saveSeenNames = upsertRow("usage_seen", SEEN, ["names"]);

export const reapSeenNames = deleteWhere("usage_seen", SEEN, "start", "<");

const GROUP = ["workspace_id", "kind", "project_id", "env", "tenant", "name"] as const satisfies (keyof UsageGroup)[];

export function findGroups(on: Reader, groups: readonly UsageGroup[]): Promise<UsageGroupRow[]> {
  const keys = groups.map((group) => GROUP.map((column) => group[column]));
  return findRows(on, `select id, ${GROUP.join(", ")} from usage_groups`, { columns: GROUP, type: "text", keys });
}

export const lastGroupId = statement<Record<string, never>>()((db) =>
  db.selectFrom("usage_groups").select((eb) => eb.fn.coalesce(eb.fn.max("id"), eb.lit(0)).as("id")),
);

export const insertGroups = bulkInsert<UsageGroupRow>(["id", ...GROUP], (db, rows) =>
  db.insertInto("usage_groups").values(rows),
);

export type RollupKey = Pick<UsageRollupRow, "group_id" | "grain" | "start">;

/** The rows of every outcome. */
export function findRollups(on: Reader, keys: readonly RollupKey[]): Promise<UsageRollupRow[]> {
  const select = "select group_id, grain, start, outcome, requests, errors, units, detail from usage_rollups";
  const values = keys.map(({ group_id, grain, start }) => [group_id, grain, start]);
  return findRows(on, select, { columns: ["group_id", "grain", "start"], type: "bigint", keys: values });
}

export const writeRollups = bulkInsert<UsageRollupRow>(
  ["group_id", "grain", "start", "outcome", "requests", "errors", "units", "detail"],
  (db, rows) =>
    db
      .insertInto("usage_rollups")
      .values(rows)
      .onConflict((oc) =>
        oc.columns(["group_id", "grain", "start", "outcome"]).doUpdateSet({
          requests: sql<number>`excluded.requests`,
          errors: sql<number>`excluded.errors`,
          units: sql<number>`excluded.units`,
          detail: sql<string>`excluded.detail`,
        }),
      ),
);

/** Groups in the order of their ids, each with its oldest row of each grain, for the job that deletes expired rows. */
export const groupsAfter = statement<{ after: number; limit: number; minute: number; hour: number; day: number }>()(
  (db, p) => {
    const page = db.selectFrom("usage_groups").select("id").where("id", ">", p.after).orderBy("id").limit(p.limit);
    return db
      .selectFrom(page.as("walked"))
      .select((eb) => {
        const oldest = (grain: number) =>
          eb
            .selectFrom("usage_rollups")
            .select((of) => of.fn.min<number | null>("start").as("start"))
            .whereRef("group_id", "=", "walked.id")
            .where("grain", "=", grain);
        return ["id", oldest(p.minute).as("minute"), oldest(p.hour).as("hour"), oldest(p.day).as("day")];
      })
      .orderBy("id");
  },
);

/**
 * Deletes at most `limit` rows of many groups: there may be a million, and each statement is a round trip. `groups`:
 * ids as JSON. Not a deletePiece(): PostgreSQL would read all that is due for its second condition, which is not needed
 * under the lock.
 */
export const reapRollups = statement<{ groups: string; grain: number; before: number; limit: number }>()(
  (db, p, dialect) => {
    const isListed = isInNumbers("usage_rollups.group_id", p.groups, dialect);
    const due = sql`${isListed} and grain = ${p.grain} and start < ${p.before}`;
    const columns = sql`group_id, grain, start, outcome`;
    const piece = sql`select ${columns} from usage_rollups where ${due} limit ${p.limit}`;
    const query = sql`delete from usage_rollups where (${columns}) in (${piece})`;
    return { compile: () => query.compile(db) };
  },
);

export const dropEmptyGroups = statement<{ groups: string }>()((db, p, dialect) =>
  db
    .deleteFrom("usage_groups")
    .where(isInNumbers("usage_groups.id", p.groups, dialect))
    .where((eb) => {
      const rows = eb.selectFrom("usage_rollups").select("group_id").whereRef("group_id", "=", "usage_groups.id");
      return eb.not(eb.exists(rows));
    }),
);

export async function deleteJournal(on: Tx, ids: readonly string[]): Promise<number> {
  let deleted = 0;
  for (const id of ids) deleted += await deleteJournalRow.run(on, { id });
  return deleted;
}
