// Balances of quotas and what processes hold of them. A balance changes only after `lockBalance`, so that what is read
// decides. Calendars are looked up in lower case: earlier versions stored zones as they were spelled, and a balance
// that is not found would be refilled. Where a balance has rows of two spellings, the newer period is in force.
import { sql } from "kysely";
import { jsonArrayFrom as postgresArray } from "kysely/helpers/postgres";
import { jsonArrayFrom as sqliteArray } from "kysely/helpers/sqlite";
import { deleteBy, updateRow, upsertRow } from "../engine/rows.ts";
import { deleteWhere } from "../engine/delete-piece.ts";
import { statement, type Builder, type Params } from "../engine/statement.ts";
import type { BalanceKey } from "../schema/tables.ts";
import { selectOpenGrants } from "./quota-grants.ts";
import { notLookedUp } from "./id-lists.ts";

/** What `calendarName` returns is in lower case. */
const lowerCalendar = sql<string>`lower(calendar)`;

const KEY = ["subject_id", "env", "quota_id", "calendar"] as const;

/** Unless there is one. */
export const insertBalance = upsertRow(
  "quota_balances",
  KEY,
  [],
  ["workspace_id", "period_start", "taken", "from_amount", "used_at"],
);

export const lockBalance = statement<BalanceKey>()((db, p, dialect) => {
  const balance = selectBalance(db, p);
  return dialect === "postgres" ? balance.forUpdate() : balance;
});

export const updateBalance = updateRow("quota_balances", KEY, ["period_start", "taken", "from_amount", "used_at"]);

export const putHolding = upsertRow(
  "quota_holdings",
  [...KEY, "process_id"],
  ["period_start", "unspent", "held", "granted", "expires_at"],
);

export const putProcess = upsertRow("quota_processes", ["process_id"], ["expires_at"]);

type AsOf = BalanceKey & { process_id: string; now: number };

/** What the other processes hold of a balance, as far as they live. */
function selectHeld(db: Builder, p: Params<AsOf>) {
  return db
    .selectFrom("quota_holdings")
    .select(["period_start", "unspent", "held", "granted"])
    .where("subject_id", "=", p.subject_id)
    .where("env", "=", p.env)
    .where("quota_id", "=", p.quota_id)
    .where(lowerCalendar, "=", p.calendar)
    .where("process_id", "<>", p.process_id)
    .where((eb) => {
      const living = eb
        .selectFrom("quota_processes")
        .select("process_id")
        .whereRef("quota_processes.process_id", "=", "quota_holdings.process_id")
        .where("quota_processes.expires_at", ">", p.now);
      return eb.or([eb("expires_at", ">", p.now), eb.exists(living)]);
    });
}

export const heldByOthers = statement<AsOf>()(selectHeld);

function selectBalance(db: Builder, p: Params<BalanceKey>) {
  return db
    .selectFrom("quota_balances")
    .select([...KEY, "workspace_id", "period_start", "taken", "from_amount", "used_at"])
    .where("subject_id", "=", p.subject_id)
    .where("env", "=", p.env)
    .where("quota_id", "=", p.quota_id)
    .where(lowerCalendar, "=", p.calendar)
    .orderBy("period_start", "desc")
    .orderBy("used_at", "desc")
    .limit(1);
}

/**
 * A balance without a lock, what the other processes hold of it and its grants, as of one moment: read one after the
 * other, a block that is given back meanwhile would count as spent. Each is a JSON array, on SQLite as text.
 */
export const balanceAtOnce = statement<AsOf>()((db, p, dialect) => {
  const toArray = dialect === "postgres" ? postgresArray : sqliteArray;
  return db.selectNoFrom([
    toArray(selectBalance(db, p)).as("balances"),
    toArray(selectHeld(db, p)).as("held"),
    toArray(selectOpenGrants(db, p)).as("grants"),
  ]);
});

export const reapHoldings = deleteWhere("quota_holdings", [...KEY, "process_id"], "expires_at", "<=");

export const reapProcesses = deleteWhere("quota_processes", ["process_id"], "expires_at", "<=");

/** Balances that were last used before a time, and may have no definition any more. */
export const unusedBalances = statement<{ before: number; limit: number }>()((db, p) =>
  db.selectFrom("quota_balances").selectAll().where("used_at", "<", p.before).orderBy("used_at").limit(p.limit),
);

/** Unless it has been used since. */
export const deleteBalance = deleteBy("quota_balances", [...KEY, "used_at"]);

/** A key with what its quotas depend on: those of its own, of its tenant and of its plan. */
export const keyDefinition = statement<{ workspace_id: string; id: string }>()((db, p) =>
  db
    .selectFrom("api_keys as k")
    .innerJoin("tenants as t", "t.id", "k.tenant_id")
    .leftJoin("plans as p", "p.id", "t.plan_id")
    .select(["k.id", "k.project_id", "k.env", "k.tenant_id", "k.quotas", "k.lineage_id"])
    .select(["t.quotas as tenant_quotas", "p.quotas as plan_quotas"])
    .where("k.id", "=", p.id)
    .where("k.workspace_id", "=", p.workspace_id),
);

export const tenantDefinition = statement<{ workspace_id: string; id: string }>()((db, p) =>
  db
    .selectFrom("tenants as t")
    .leftJoin("plans as p", "p.id", "t.plan_id")
    .select(["t.id", "t.quotas as tenant_quotas", "p.quotas as plan_quotas"])
    .where("t.id", "=", p.id)
    .where("t.workspace_id", "=", p.workspace_id)
    .where("t.deleted_at", "is", null),
);

export const raiseUsedAt = updateRow("quota_balances", KEY, ["used_at"]);

/** The quotas of a tenant or its plan, or of the keys of a lineage, that are in force. */
export const subjectQuotas = statement<{ workspace_id: string; subject_id: string }>()((db, p) =>
  db
    .selectFrom("tenants as t")
    .leftJoin("plans as p", "p.id", "t.plan_id")
    .select(sql<string | null>`coalesce(t.quotas, p.quotas)`.as("quotas"))
    .where("t.id", "=", p.subject_id)
    .where("t.workspace_id", "=", p.workspace_id)
    .where("t.deleted_at", "is", null)
    .unionAll(
      db
        .selectFrom("api_keys")
        .select("quotas")
        .where(notLookedUp("api_keys.workspace_id"), "=", p.workspace_id)
        .where("revoked_at", "is", null)
        .where((eb) => eb.or([eb("id", "=", p.subject_id), eb("lineage_id", "=", p.subject_id)])),
    ),
);
