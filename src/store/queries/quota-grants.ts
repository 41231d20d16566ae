// Grants of quotas. A reference names one grant of a balance forever, so rows of spent and voided grants with one stay.
import { sql, type SqlBool } from "kysely";
import { deletePiece } from "../engine/delete-piece.ts";
import { pageAfter, type PageKey } from "./page.ts";
import { insertRow, rowBy, updateRow } from "../engine/rows.ts";
import { selectRows, statement, type Builder, type Params } from "../engine/statement.ts";
import type { Reader } from "../engine/tx.ts";
import type { BalanceKey, QuotaGrantRow } from "../schema/tables.ts";
import { isUnexpired } from "./keys.ts";

/** Grants have no calendar: a key and its successor may spend the same ones in different periods. */
export type GrantedTo = Omit<BalanceKey, "calendar">;

export const insertGrant = insertRow("quota_grants", [
  "id",
  "workspace_id",
  "subject_id",
  "env",
  "quota_id",
  "tenant_id",
  "key_id",
  "units",
  "remaining",
  "expires_at",
  "reason",
  "reference",
  "voided_at",
  "created_at",
]);

/** Grants with units that have not expired, by age. */
export function selectOpenGrants(db: Builder, p: Params<GrantedTo & { now: number }>) {
  return db
    .selectFrom("quota_grants")
    .select(["id", "remaining", "expires_at"])
    .where("subject_id", "=", p.subject_id)
    .where("env", "=", p.env)
    .where("quota_id", "=", p.quota_id)
    .where(sql<SqlBool>`remaining > 0`)
    .where(isUnexpired("expires_at", p.now))
    .orderBy("created_at")
    .orderBy("id");
}

export const openGrants = statement<GrantedTo & { now: number }>()(selectOpenGrants);

/** Changes nothing if the grant has fewer: another balance of the quota, or a void, was first. */
export const takeFromGrant = statement<{ id: string; units: number }>()((db, p) =>
  db
    .updateTable("quota_grants")
    .set({ remaining: sql<number>`remaining - ${p.units}` })
    .where("id", "=", p.id)
    .where("remaining", ">=", p.units),
);

/** A voided grant takes nothing back. */
export const giveBackToGrant = statement<{ id: string; units: number }>()((db, p) =>
  db
    .updateTable("quota_grants")
    .set({ remaining: sql<number>`remaining + ${p.units}` })
    .where("id", "=", p.id)
    .where("voided_at", "is", null),
);

export const grantByReference = rowBy("quota_grants", ["subject_id", "env", "quota_id", "reference"]);

export const grantById = rowBy("quota_grants", ["id", "workspace_id"]);

/** So that no other process takes units of it meanwhile. */
export const lockGrant = rowBy("quota_grants", ["id", "workspace_id"], "for update");

export const voidGrant = updateRow("quota_grants", ["id", "workspace_id"], ["voided_at", "remaining"]);

export function listGrants(on: Reader, to: GrantedTo, after: PageKey | null, limit: number): Promise<QuotaGrantRow[]> {
  return selectRows(on, (db) => {
    let query = db
      .selectFrom("quota_grants")
      .selectAll()
      .where("subject_id", "=", to.subject_id)
      .where("env", "=", to.env)
      .where("quota_id", "=", to.quota_id);
    if (after) query = query.where(pageAfter<"quota_grants">(after));
    return query.orderBy("created_at", "desc").orderBy("id", "desc").limit(limit);
  });
}

/**
 * Deletes grants without a reference that ended before a time. When one was used up is not stored: its creation serves.
 * The index quota_grants_ended has the same expression.
 */
export const reapEndedGrants = deletePiece<{ before: number }>()(
  "quota_grants",
  ["id"],
  (p) => sql`reference is null
    and case when remaining = 0 then coalesce(voided_at, created_at) else expires_at end < ${p.before}`,
);
