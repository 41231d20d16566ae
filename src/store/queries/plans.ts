// Plans, and the keys of the tenants on them. Every query is scoped to the workspace; deleted plans are not found.
import { sql } from "kysely";
import type { Env } from "../../kernel/credentials.ts";
import { insertRow, updateRow } from "../engine/rows.ts";
import { countRows, statement } from "../engine/statement.ts";
import { countLive, liveById, markDeleted, pageKeyOf } from "./records.ts";
import { hasNoSuccessor } from "./keys.ts";

export const insertPlan = insertRow("plans", [
  "id",
  "workspace_id",
  "name",
  "slug",
  "rate_limits",
  "scopes",
  "max_keys",
  "key_ttl_days",
  "quotas",
  "meta",
  "tenant_count",
  "created_at",
  "updated_at",
  "deleted_at",
]);

export const livePlanById = liveById("plans");

/** The plan of a tenant, a deleted one too: its keys may outlive it for a moment. */
export const planOfTenant = statement<{ workspace_id: string; tenant_id: string }>()((db, p) =>
  db
    .selectFrom("plans")
    .innerJoin("tenants", "tenants.plan_id", "plans.id")
    .selectAll("plans")
    .where("tenants.id", "=", p.tenant_id)
    .where("tenants.workspace_id", "=", p.workspace_id),
);

export const planPageKey = pageKeyOf("plans");

export const countPlans = countLive("plans");

export const updatePlan = updateRow(
  "plans",
  ["id", "workspace_id"],
  ["name", "slug", "rate_limits", "scopes", "max_keys", "key_ttl_days", "quotas", "meta", "updated_at"],
);

/** Adds to the tenant count of a plan; `more` is negative for tenants that left it. */
export const addToTenantCount = statement<{ workspace_id: string; id: string; more: number }>()((db, p) =>
  db
    .updateTable("plans")
    .set({ tenant_count: sql<number>`tenant_count + ${p.more}` })
    .where("id", "=", p.id)
    .where("workspace_id", "=", p.workspace_id),
);

export const markPlanDeleted = markDeleted("plans");

/** Projects that have keys, and so may have some of a plan's tenants. */
export const projectsWithKeys = statement<{ workspace_id: string }>()((db, p) =>
  db
    .selectFrom("projects")
    .select("id")
    .where("workspace_id", "=", p.workspace_id)
    .where("deleted_at", "is", null)
    .where((eb) =>
      eb.exists(eb.selectFrom("api_keys").select("api_keys.id").whereRef("api_keys.project_id", "=", "projects.id")),
    )
    .orderBy("id"),
);

/** Found where some tenant has a plan, or limits or quotas of its own. */
export const tenantRules = statement<{ workspace_id: string }>()((db, p) => {
  const tenants = db.selectFrom("tenants").select("id").where("workspace_id", "=", p.workspace_id);
  const some = tenants
    .where("plan_id", "is not", null)
    .unionAll(tenants.where("rate_limits", "is not", null))
    .unionAll(tenants.where("quotas", "is not", null));
  return db.selectFrom(some.as("some")).select("id").limit(1);
});

type TenantKeys = { workspace_id: string; tenant_id: string; env: Env; now: number; max: number };

/**
 * Up to `max` active keys of a tenant in one environment, without those that an active successor replaces. Project by
 * project and in two ranges, because an index then skips revoked and expired keys however many there are.
 */
export const countActiveKeys = statement<TenantKeys>()((db, p) => {
  const keys = db
    .selectFrom("projects")
    .crossJoin("api_keys") // SQLite keeps the order of a cross join
    .select("api_keys.id")
    .where("projects.workspace_id", "=", p.workspace_id)
    .where("projects.deleted_at", "is", null)
    .where("api_keys.workspace_id", "=", p.workspace_id)
    .whereRef("api_keys.project_id", "=", "projects.id")
    .where("api_keys.tenant_id", "=", p.tenant_id)
    .where("api_keys.env", "=", p.env)
    .where("api_keys.revoked_at", "is", null)
    .where(hasNoSuccessor("api_keys", p.now));
  const active = keys
    .where("api_keys.expires_at", "is", null)
    .unionAll(keys.where("api_keys.expires_at", ">", p.now))
    .limit(p.max);
  return db.selectFrom(active.as("active")).select(countRows);
});
