// Grants of quotas. A reference names one grant of a balance for ever, so rows of spent and voided grants with one stay.
import { sql, type SqlBool } from "kysely";
import { pageAfter, type PageKey } from "./page.ts";
import { columns, compileQuery, statement, type Reader } from "../engine/statement.ts";
import type { BalanceKey, QuotaGrantRow } from "../schema/tables.ts";

export type GrantedTo = Omit<BalanceKey, "calendar">;

export const insertGrant = statement<QuotaGrantRow>()((db, p) =>
  db
    .insertInto("quota_grants")
    .values(
      columns(p, [
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
      ]),
    ),
);

/** Grants with units that have not expired, by age. */
export const openGrants = statement<GrantedTo & { now: number }>()((db, p) =>
  db
    .selectFrom("quota_grants")
    .select(["id", "remaining", "expires_at"])
    .where("subject_id", "=", p.subject_id)
    .where("env", "=", p.env)
    .where("quota_id", "=", p.quota_id)
    .where(sql<SqlBool>`remaining > 0`)
    .where((eb) => eb.or([eb("expires_at", "is", null), eb("expires_at", ">", p.now)]))
    .orderBy("created_at")
    .orderBy("id"),
);

/** Changes nothing where the grant has fewer: another balance of the quota, or a void, was first. */
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

export const grantByReference = statement<GrantedTo & { reference: string }>()((db, p) =>
  db
    .selectFrom("quota_grants")
    .selectAll()
    .where("subject_id", "=", p.subject_id)
    .where("env", "=", p.env)
    .where("quota_id", "=", p.quota_id)
    .where("reference", "=", p.reference),
);

export const grantById = statement<{ workspace_id: string; id: string }>()((db, p) =>
  db.selectFrom("quota_grants").selectAll().where("id", "=", p.id).where("workspace_id", "=", p.workspace_id),
);

export const voidGrant = statement<{ workspace_id: string; id: string; now: number }>()((db, p) =>
  db
    .updateTable("quota_grants")
    .set({ voided_at: p.now, remaining: 0 })
    .where("id", "=", p.id)
    .where("workspace_id", "=", p.workspace_id),
);

export function listGrants(on: Reader, to: GrantedTo, after: PageKey | null, limit: number): Promise<QuotaGrantRow[]> {
  return on.all<QuotaGrantRow>(
    compileQuery(on, (db) => {
      let query = db
        .selectFrom("quota_grants")
        .selectAll()
        .where("subject_id", "=", to.subject_id)
        .where("env", "=", to.env)
        .where("quota_id", "=", to.quota_id);
      if (after) query = query.where(pageAfter<"quota_grants">(after));
      return query.orderBy("created_at", "desc").orderBy("id", "desc").limit(limit);
    }),
  );
}

/** In the order of their ids, which is that of their creation. */
export const grantsAfter = statement<{ after: string; limit: number }>()((db, p) =>
  db
    .selectFrom("quota_grants")
    .select(["id", "remaining", "expires_at", "reference", "voided_at", "created_at"])
    .where("id", ">", p.after)
    .orderBy("id")
    .limit(p.limit),
);

/** Unless units of it came back meanwhile. */
export const deleteGrant = statement<{ id: string; remaining: number }>()((db, p) =>
  db.deleteFrom("quota_grants").where("id", "=", p.id).where("remaining", "=", p.remaining),
);
