// API keys as credentials of their holders: found by hash in every workspace, with what they may do to themselves.
import type { ExpressionBuilder } from "kysely";
import { statement } from "../engine/statement.ts";
import type { Tables } from "../schema/tables.ts";
import { notRevoked, selectKeys } from "./keys.ts";

type Keys = ExpressionBuilder<Tables, "api_keys">;

function ofTenant<C extends "suspended_at" | "allowed_cidrs" | "ip_mode">(eb: Keys, column: C) {
  return eb.selectFrom("tenants").select(`tenants.${column}`).whereRef("tenants.id", "=", "api_keys.tenant_id");
}

/** The list of networks that a key inherits. */
function tenantListOf(eb: Keys) {
  return [
    ofTenant(eb, "allowed_cidrs").as("tenant_allowed_cidrs"),
    ofTenant(eb, "ip_mode").as("tenant_ip_mode"),
  ] as const;
}

/** What admission looks at. */
export const holderByHash = statement<{ lookup_hash: string }>()((db, p) =>
  selectKeys(db)
    .clearSelect()
    .select(["id", "workspace_id", "project_id", "tenant_id", "env", "expires_at", "disabled_at"])
    .select(["allowed_cidrs", "ip_mode"])
    .select((eb) => [
      eb.case().when(notRevoked(eb)).then(0).else(1).end().as("revoked"),
      ofTenant(eb, "suspended_at").as("suspended_at"),
      ...tenantListOf(eb),
      eb
        .selectFrom("workspaces")
        .select("created_by")
        .whereRef("workspaces.id", "=", "api_keys.workspace_id")
        .as("account_id"),
    ])
    .where("lookup_hash", "=", p.lookup_hash),
);

/** The key with what its tenant, plan and project say about it, and its successor. */
export const selfById = statement<{ workspace_id: string; id: string; now: number }>()((db, p) =>
  selectKeys(db)
    .select((eb) => {
      const project = eb.selectFrom("projects").whereRef("projects.id", "=", "api_keys.project_id");
      const tenant = eb.selectFrom("tenants").whereRef("tenants.id", "=", "api_keys.tenant_id");
      const plan = tenant.innerJoin("plans", "plans.id", "tenants.plan_id");
      return [
        tenant.select("tenants.rate_limits").as("tenant_rate_limits"),
        plan.select("plans.rate_limits").as("plan_rate_limits"),
        plan.select("plans.scopes").as("plan_scopes"),
        project.select("projects.default_rate_limits").as("default_rate_limits"),
        project.select("projects.key_policy").as("key_policy"),
        ...tenantListOf(eb),
        eb
          .selectFrom("api_keys as successor")
          .select("successor.id")
          .whereRef("successor.rotated_from", "=", "api_keys.id")
          .where("successor.revoked_at", "is", null)
          .where((own) => own.or([own("successor.expires_at", "is", null), own("successor.expires_at", ">", p.now)]))
          .limit(eb.lit(1))
          .as("successor_id"),
      ];
    })
    .where("id", "=", p.id)
    .where("workspace_id", "=", p.workspace_id),
);
