// The push of usage: which hours have changed, and which parts of them were sent. A part is written before it is sent
// and never changes, so that sending it again repeats the same id and values.
import { sql } from "kysely";
import { bulkInsert } from "../engine/bulk-insert.ts";
import { findRows } from "../engine/find-rows.ts";
import { deleteWhere } from "../engine/delete-piece.ts";
import { statement, type Builder, type Params } from "../engine/statement.ts";
import type { Reader } from "../engine/tx.ts";
import type { MeteredHourRow } from "../schema/tables.ts";
import type { RefusedRange } from "../usage/metered-hours.ts";

/** To be run in the transaction that changes the hour's sums. */
export const markHour = statement<{ hour: number; workspace_id: string; now: number }>()((db, p) =>
  db
    .insertInto("usage_hours")
    .values({ hour: p.hour, workspace_id: p.workspace_id, changes: 1, checked: 0, changed_at: p.now })
    .onConflict((oc) =>
      oc.columns(["hour", "workspace_id"]).doUpdateSet({
        changes: sql<number>`usage_hours.changes + 1`,
        changed_at: sql<number>`case when usage_hours.changes > usage_hours.checked
          then usage_hours.changed_at else excluded.changed_at end`,
      }),
    ),
);

/** `before`: an hour; `changedBefore`: a time. */
type Due = { before: number; changedBefore: number };

/** One hour. */
function changedHours(db: Builder, p: Params<Due>) {
  return db
    .selectFrom("usage_hours")
    .select(["hour", "workspace_id", "changes", "changed_at"])
    .whereRef("changes", ">", "checked")
    .where("hour", "<", p.before)
    .where("changed_at", "<=", p.changedBefore)
    .limit(1);
}

export const oldestChangedHour = statement<Due>()((db, p) =>
  changedHours(db, p).orderBy("hour").orderBy("workspace_id"),
);

/** The oldest of the first workspace behind an id. */
export const changedHourAfter = statement<Due & { workspace_id: string }>()((db, p) =>
  changedHours(db, p).where("workspace_id", ">", p.workspace_id).orderBy("workspace_id").orderBy("hour"),
);

/**
 * `changes`: their number when the hour was read. Later ones are due again after the time to settle, counted from now.
 */
export const markChecked = statement<{ hour: number; workspace_id: string; changes: number; now: number }>()((db, p) =>
  db
    .updateTable("usage_hours")
    .set({
      checked: p.changes,
      changed_at: sql<number>`case when changes > ${p.changes} then ${p.now} else changed_at end`,
    })
    .where("hour", "=", p.hour)
    .where("workspace_id", "=", p.workspace_id)
    .where("checked", "<", p.changes),
);

/** The live tenants of a workspace, in each project. */
export const liveTenantGroups = statement<{
  workspace_id: string;
  tenant: string;
  project_id: string;
  limit: number;
}>()((db, p) =>
  db
    .selectFrom("usage_groups")
    .select(["id", "tenant", "project_id"])
    .where("workspace_id", "=", p.workspace_id)
    .where("kind", "=", "tenant")
    .where("name", "=", "")
    .where("tenant", ">", "")
    .where(sql<boolean>`(tenant, project_id) > (${p.tenant}, ${p.project_id})`)
    .where("env", "=", "live")
    .orderBy("tenant")
    .orderBy("project_id")
    .limit(p.limit),
);

export function findMeteredHours(on: Reader, hour: number, groups: readonly number[]): Promise<MeteredHourRow[]> {
  const select = "select hour, group_id, parts, sent, settled, refused from metered_hours";
  const keys = groups.map((id) => [hour, id]);
  return findRows(on, select, { columns: ["hour", "group_id"], type: "bigint", keys });
}

const setAside = sql<number>`1000000`; // SET_ASIDE
const offered = sql<number>`(case when refused = 0 then settled else refused % ${setAside} end)`;
const refusedNext = sql<number>`${offered} + 1 + (case when ${offered} + 1 < sent then 0 else ${setAside} end)`;

/** New rows, and further parts of existing ones. */
export const writeParts = bulkInsert<Pick<MeteredHourRow, "hour" | "group_id" | "parts" | "sent">>(
  ["hour", "group_id", "parts", "sent"],
  (db, rows) =>
    db
      .insertInto("metered_hours")
      .values(rows.map((row) => ({ ...row, settled: sql<number>`0`, refused: sql<number>`0` })))
      .onConflict((oc) =>
        oc.columns(["hour", "group_id"]).doUpdateSet({
          parts: sql<string>`excluded.parts`,
          sent: sql<number>`excluded.sent`,
          refused: sql<number>`metered_hours.refused % ${setAside}`,
        }),
      ),
);

/** Hours with parts that the receiver has not accepted. Those with a refused part come last: the order of the index. */
export const unsettledHours = statement<RefusedRange & { limit: number }>()((db, p) =>
  db
    .selectFrom("metered_hours as m")
    .innerJoin("usage_groups as g", "g.id", "m.group_id")
    .leftJoin("tenants as t", "t.id", "g.tenant")
    .leftJoin("projects as p", "p.id", "g.project_id")
    .select(["m.hour", "m.group_id", "m.parts", "m.settled", "m.refused"])
    .select(["g.workspace_id", "g.project_id", "g.tenant", "t.external_id", "t.plan_id", "p.slug"])
    .whereRef("m.settled", "<", "m.sent")
    .where("m.refused", ">=", p.from)
    .where("m.refused", "<", p.below)
    .orderBy("m.refused")
    .orderBy("m.hour")
    .orderBy("m.group_id")
    .limit(p.limit),
);

type PartKey = { hour: number; group_id: number; part: number };

/** No row if the hour has been replayed since, or a part before this one is to be sent again. */
function nextPart(db: Builder, p: Params<PartKey>) {
  return db
    .updateTable("metered_hours")
    .where("hour", "=", p.hour)
    .where("group_id", "=", p.group_id)
    .where(offered, "=", sql<number>`${p.part} - 1`);
}

export const settlePart = statement<PartKey>()((db, p) =>
  nextPart(db, p).set({
    settled: sql<number>`case when refused = 0 then settled + 1 else settled end`,
    refused: sql<number>`case when refused = 0 then 0 else ${refusedNext} end`,
  }),
);

/** For a part that the receiver will not take. */
export const refusePart = statement<PartKey>()((db, p) => nextPart(db, p).set({ refused: refusedNext }));

/** Offers again the first refused part of each hour and all behind it. */
export const retryRefused = statement<Record<string, never>>()((db) =>
  db
    .updateTable("metered_hours")
    .set({ refused: 0 })
    .whereRef("settled", "<", "sent")
    .where("refused", ">", sql<number>`0`),
);

export const replayHour = statement<{ hour: number }>()((db, p) =>
  db.updateTable("metered_hours").set({ settled: 0, refused: 0 }).where("hour", "=", p.hour),
);

/** The parts of the hour are new again, unless a change of it is waiting already. */
export const markReplayed = statement<{ hour: number; now: number }>()((db, p) =>
  db
    .updateTable("usage_hours")
    .set({ changed_at: p.now })
    .where("hour", "=", p.hour)
    .whereRef("changes", "=", "checked"),
);

function unsettledRows(db: Builder, p: Params<RefusedRange>) {
  return db
    .selectFrom("metered_hours")
    .whereRef("settled", "<", "sent")
    .where("refused", ">=", p.from)
    .where("refused", "<", p.below);
}

export const countUnsettled = statement<RefusedRange>()((db, p) =>
  unsettledRows(db, p).select((eb) => eb.fn.countAll<number>().as("rows")),
);

/** `changed_at`: the first of the changes that the last part has, or the first one since. */
export const oldestUnsettled = statement<RefusedRange>()((db, p) =>
  db
    .selectFrom(unsettledRows(db, p).select(["hour", "group_id"]).orderBy("hour").limit(1).as("walked"))
    .innerJoin("usage_groups as g", "g.id", "walked.group_id")
    .leftJoin("usage_hours as h", (join) =>
      join.onRef("h.hour", "=", "walked.hour").onRef("h.workspace_id", "=", "g.workspace_id"),
    )
    .select(["walked.hour", "h.changed_at"]),
);

export const reapMeteredHours = deleteWhere("metered_hours", ["hour", "group_id"], "hour", "<");

export const reapUsageHours = deleteWhere("usage_hours", ["hour", "workspace_id"], "hour", "<");
