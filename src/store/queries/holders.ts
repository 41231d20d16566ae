// API keys as credentials of their holders: found by hash in every workspace, with what they may do to themselves.
import { statement } from "../engine/statement.ts";
import { notRevoked, workingSuccessor } from "./keys.ts";

/** Selects what admission decides on. */
export const holderByHash = statement<{ lookup_hash: string }>()((db, p) =>
  db
    .selectFrom("api_keys")
    .leftJoin("tenants", "tenants.id", "api_keys.tenant_id")
    .leftJoin("workspaces", "workspaces.id", "api_keys.workspace_id")
    .select(["api_keys.id", "api_keys.workspace_id", "project_id", "tenant_id", "env", "expires_at", "disabled_at"])
    .select(["api_keys.allowed_cidrs", "api_keys.ip_mode", "suspended_at", "workspaces.created_by as account_id"])
    .select(["tenants.allowed_cidrs as tenant_allowed_cidrs", "tenants.ip_mode as tenant_ip_mode"])
    .select((eb) => eb.case().when(notRevoked(eb)).then(0).else(1).end().as("revoked"))
    .where("lookup_hash", "=", p.lookup_hash),
);

/** The key with what its tenant, plan and project say about it, and its successor. bench: rules/self */
export const selfById = statement<{ workspace_id: string; id: string; now: number }>()((db, p) =>
  db
    .selectFrom("api_keys")
    .leftJoin("projects", "projects.id", "api_keys.project_id")
    .leftJoin("tenants", "tenants.id", "api_keys.tenant_id")
    .leftJoin("plans", "plans.id", "tenants.plan_id")
    .select(["env", "display_prefix", "api_keys.name", "api_keys.scopes", "api_keys.rate_limits"])
    .select(["expires_at", "quarantined_at", "rotated_from", "api_keys.created_at"])
    .select(["api_keys.allowed_cidrs", "api_keys.ip_mode"])
    .select(["tenants.allowed_cidrs as tenant_allowed_cidrs", "tenants.ip_mode as tenant_ip_mode"])
    .select(["tenants.rate_limits as tenant_rate_limits", "plans.rate_limits as plan_rate_limits"])
    .select(["plans.scopes as plan_scopes", "default_rate_limits", "key_policy"])
    .select(workingSuccessor("api_keys", p.now))
    .where("api_keys.id", "=", p.id)
    .where("api_keys.workspace_id", "=", p.workspace_id),
);
