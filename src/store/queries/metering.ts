// The push of usage: which hours have changed, and which parts of them were sent. A part is written before it is sent
// and never changes, so that sending it again repeats the same id and values.
import { sql } from "kysely";
import { deletePiece } from "../engine/delete-piece.ts";
import { bulkInsert } from "../engine/bulk-insert.ts";
import { findRows } from "../engine/find-rows.ts";
import { statement } from "../engine/statement.ts";
import type { Reader } from "../engine/tx.ts";
import type { MeteredHourRow } from "../schema/tables.ts";

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

/** Oldest first. `before`: an hour; `changedBefore`: a time. */
export const changedHours = statement<{ before: number; changedBefore: number; limit: number }>()((db, p) =>
  db
    .selectFrom("usage_hours")
    .select(["hour", "workspace_id", "changes"])
    .whereRef("changes", ">", "checked")
    .where("hour", "<", p.before)
    .where("changed_at", "<=", p.changedBefore)
    .orderBy("hour")
    .orderBy("workspace_id")
    .limit(p.limit),
);

/** The oldest of the first workspace behind an id. */
export const changedHourAfter = statement<{ workspace_id: string; before: number; changedBefore: number }>()((db, p) =>
  db
    .selectFrom("usage_hours")
    .select(["hour", "workspace_id", "changes"])
    .whereRef("changes", ">", "checked")
    .where("workspace_id", ">", p.workspace_id)
    .where("hour", "<", p.before)
    .where("changed_at", "<=", p.changedBefore)
    .orderBy("workspace_id")
    .orderBy("hour")
    .limit(1),
);

/**
 * `changes`: their number when the hour was read. Later ones are due again after the time to settle, counted from now.
 */
export const markChecked = statement<{ hour: number; workspace_id: string; changes: number; now: number }>()((db, p) =>
  db
    .updateTable("usage_hours")
    .set({ checked: p.changes, changed_at: p.now })
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

/** New rows, and further parts of existing ones. */
export const writeParts = bulkInsert<Pick<MeteredHourRow, "hour" | "group_id" | "parts" | "sent">>(
  ["hour", "group_id", "parts", "sent"],
  (db, rows) =>
    db
      .insertInto("metered_hours")
      .values(rows.map((row) => ({ ...row, settled: sql<number>`0`, refused: sql<number>`0` })))
      .onConflict((oc) =>
        oc
          .columns(["hour", "group_id"])
          .doUpdateSet({ parts: sql<string>`excluded.parts`, sent: sql<number>`excluded.sent` }),
      ),
);

/** Hours with parts that the receiver has not accepted, oldest first. */
export const unsettledHours = statement<{ refused: 0 | 1; limit: number }>()((db, p) =>
  db
    .selectFrom("metered_hours as m")
    .innerJoin("usage_groups as g", "g.id", "m.group_id")
    .leftJoin("tenants as t", "t.id", "g.tenant")
    .leftJoin("projects as p", "p.id", "g.project_id")
    .select(["m.hour", "m.group_id", "m.parts", "m.settled"])
    .select(["g.workspace_id", "g.project_id", "g.tenant", "t.external_id", "t.plan_id", "p.slug"])
    .whereRef("m.settled", "<", "m.sent")
    .where("m.refused", "=", p.refused)
    .orderBy("m.hour")
    .orderBy("m.group_id")
    .limit(p.limit),
);

/** Changes nothing if the hour has been replayed since. */
export const settlePart = statement<{ hour: number; group_id: number; part: number }>()((db, p) =>
  db
    .updateTable("metered_hours")
    .set({ settled: p.part })
    .where("hour", "=", p.hour)
    .where("group_id", "=", p.group_id)
    .where("settled", "=", sql<number>`${p.part} - 1`),
);

export const refuseHour = statement<{ hour: number; group_id: number }>()((db, p) =>
  db.updateTable("metered_hours").set({ refused: 1 }).where("hour", "=", p.hour).where("group_id", "=", p.group_id),
);

export const retryRefused = statement<Record<string, never>>()((db) =>
  db.updateTable("metered_hours").set({ refused: 0 }).whereRef("settled", "<", "sent").where("refused", "=", 1),
);

export const replayHour = statement<{ hour: number }>()((db, p) =>
  db.updateTable("metered_hours").set({ settled: 0, refused: 0 }).where("hour", "=", p.hour),
);

export const unsettledState = statement<{ refused: 0 | 1 }>()((db, p) =>
  db
    .selectFrom("metered_hours")
    .select((eb) => [eb.fn.countAll<number>().as("rows"), eb.fn.min<number | null>("hour").as("oldest")])
    .whereRef("settled", "<", "sent")
    .where("refused", "=", p.refused),
);

export const reapMeteredHours = deletePiece<{ before: number }>()(
  "metered_hours",
  ["hour", "group_id"],
  (p) => sql`hour < ${p.before}`,
);

export const reapUsageHours = deletePiece<{ before: number }>()(
  "usage_hours",
  ["hour", "workspace_id"],
  (p) => sql`hour < ${p.before}`,
);
