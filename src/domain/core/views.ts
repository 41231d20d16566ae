// The wire shapes of records, field by field: a column that is not named here never leaves the process.
import { parseKeyPolicy } from "../key-policy/key-policy.ts";
import type { CatalogueScope } from "../keys/scope-catalogue.ts";
import type { Permission } from "./actor.ts";
import type { Quota } from "../../kernel/quotas/quota.ts";
import type { RateLimit } from "../../kernel/ratelimit/rule.ts";
import type { Json } from "../../kernel/audit/canonical.ts";
import { formatTimestamp, formatTimestampOrNull as time } from "../../kernel/timestamps.ts";
import type {
  ApiKeyRow,
  PlanRow,
  ProjectRow,
  Role,
  SecretKeyRow,
  SessionRow,
  TenantRow,
  UserRow,
  WorkspaceInviteRow,
  WorkspaceRow,
} from "../../store/schema/tables.ts";

export type Meta = { [key: string]: Json };

export function viewWorkspace(row: WorkspaceRow) {
  return {
    object: "workspace" as const,
    id: row.id,
    name: row.name,
    slug: row.slug,
    billing_email: row.billing_email,
    embed_origins: JSON.parse(row.embed_origins) as string[],
    created_at: formatTimestamp(row.created_at),
    updated_at: formatTimestamp(row.updated_at),
  };
}

export function viewProject(row: ProjectRow) {
  return {
    object: "project" as const,
    id: row.id,
    name: row.name,
    slug: row.slug,
    policy_version: row.policy_version,
    default_rate_limits: JSON.parse(row.default_rate_limits) as RateLimit[],
    key_policy: parseKeyPolicy(row.key_policy),
    scope_catalogue: JSON.parse(row.scope_catalogue) as CatalogueScope[],
    created_at: formatTimestamp(row.created_at),
    updated_at: formatTimestamp(row.updated_at),
    key_prefix: row.key_prefix,
    key_prefixes: JSON.parse(row.key_prefixes) as string[],
  };
}

export function viewTenant(row: TenantRow) {
  return {
    object: "tenant" as const,
    id: row.id,
    external_id: row.external_id,
    name: row.name,
    meta: JSON.parse(row.meta) as Meta,
    embed_epoch: row.embed_epoch,
    created_at: formatTimestamp(row.created_at),
    updated_at: formatTimestamp(row.updated_at),
    suspended_at: time(row.suspended_at),
    suspended_reason: row.suspended_reason,
    allowed_cidrs: JSON.parse(row.allowed_cidrs) as string[],
    ip_mode: row.ip_mode,
    ...(row.plan_id !== null && { plan_id: row.plan_id }),
    ...(row.rate_limits !== null && { rate_limits: JSON.parse(row.rate_limits) as RateLimit[] }),
    ...quotasOf(row),
  };
}

/** Numbers of records are not shown above it. */
const COUNT_MAX = 10_000;

export function viewPlan(row: PlanRow) {
  return {
    object: "plan" as const,
    id: row.id,
    name: row.name,
    slug: row.slug,
    rate_limits: row.rate_limits === null ? null : (JSON.parse(row.rate_limits) as RateLimit[]),
    scopes: row.scopes === null ? null : (JSON.parse(row.scopes) as string[]),
    max_keys: row.max_keys,
    key_ttl_days: row.key_ttl_days,
    quotas: JSON.parse(row.quotas ?? "[]") as Quota[],
    meta: JSON.parse(row.meta) as Meta,
    tenants: Math.min(row.tenant_count, COUNT_MAX),
    created_at: formatTimestamp(row.created_at),
    updated_at: formatTimestamp(row.updated_at),
  };
}

/** The field is absent if nothing is set. */
function quotasOf({ quotas }: { quotas: string | null }): { quotas?: Quota[] } {
  return quotas === null ? {} : { quotas: JSON.parse(quotas) as Quota[] };
}

export function viewKey(row: ApiKeyRow) {
  return {
    object: "api_key" as const,
    id: row.id,
    project_id: row.project_id,
    tenant_id: row.tenant_id,
    env: row.env,
    display_prefix: row.display_prefix,
    name: row.name,
    scopes: JSON.parse(row.scopes) as string[],
    meta: JSON.parse(row.meta) as Meta,
    rate_limits: row.rate_limits === null ? null : (JSON.parse(row.rate_limits) as RateLimit[]),
    expires_at: time(row.expires_at),
    revoked_at: time(row.revoked_at),
    revoked_reason: row.revoked_reason,
    quarantined_at: time(row.quarantined_at),
    quarantine_reason: row.quarantine_reason,
    rotated_from: row.rotated_from,
    created_at: formatTimestamp(row.created_at),
    last_used_at: time(row.last_used_at),
    disabled_at: time(row.disabled_at),
    disabled_reason: row.disabled_reason,
    allowed_cidrs: row.allowed_cidrs === null ? null : (JSON.parse(row.allowed_cidrs) as string[]),
    ip_mode: row.ip_mode,
    ...quotasOf(row),
  };
}

/** The key as shown to its tenant: without the vendor's meta and quotas. */
export function forCustomer<T extends ApiKey>(view: T): T {
  const shown = { ...view, meta: {} };
  delete shown.quotas;
  return shown;
}

export function viewSecretKey(row: SecretKeyRow) {
  return {
    object: "secret_key" as const,
    id: row.id,
    env: row.env,
    display_prefix: row.display_prefix,
    name: row.name,
    meta: JSON.parse(row.meta) as Meta,
    expires_at: time(row.expires_at),
    revoked_at: time(row.revoked_at),
    revoked_reason: row.revoked_reason,
    quarantined_at: time(row.quarantined_at),
    quarantine_reason: row.quarantine_reason,
    rotated_from: row.rotated_from,
    created_at: formatTimestamp(row.created_at),
    last_used_at: time(row.last_used_at),
    permissions: row.permissions === null ? null : (JSON.parse(row.permissions) as Permission[]),
    project_ids: row.project_ids === null ? null : (JSON.parse(row.project_ids) as string[]),
  };
}

/** A person embedded in another record, without `object`. */
export function viewUserFields(row: UserRow) {
  return {
    id: row.id,
    email: row.email,
    email_verified: row.email_verified_at !== null,
    name: row.name,
    created_at: formatTimestamp(row.created_at),
    last_login_at: time(row.last_login_at),
  };
}

export function viewUser(row: UserRow) {
  return { object: "user" as const, ...viewUserFields(row) };
}

export type Membership = { workspace_id: string; role: Role; name: string; slug: string };

export function viewSession(row: SessionRow) {
  return {
    id: row.id,
    display_prefix: row.display_prefix,
    active_workspace_id: row.active_workspace_id,
    created_at: formatTimestamp(row.created_at),
    last_seen_at: formatTimestamp(row.last_seen_at),
    expires_at: formatTimestamp(row.expires_at),
    absolute_expires_at: formatTimestamp(row.absolute_expires_at),
  };
}

export type MemberRow = Pick<UserRow, "email" | "email_verified_at" | "name"> & {
  user_id: string;
  role: Role;
  created_at: number;
  updated_at: number;
};

export function viewMember(row: MemberRow) {
  return {
    object: "workspace_member" as const,
    user_id: row.user_id,
    email: row.email,
    email_verified: row.email_verified_at !== null,
    name: row.name,
    role: row.role,
    created_at: formatTimestamp(row.created_at),
    updated_at: formatTimestamp(row.updated_at),
  };
}

export function viewInvite(row: WorkspaceInviteRow) {
  return {
    object: "workspace_invite" as const,
    id: row.id,
    email: row.email,
    role: row.role,
    invited_by: row.invited_by,
    created_at: formatTimestamp(row.created_at),
    expires_at: formatTimestamp(row.expires_at),
    accepted_at: time(row.accepted_at),
    revoked_at: time(row.revoked_at),
  };
}

export type Tenant = ReturnType<typeof viewTenant>;
export type ApiKey = ReturnType<typeof viewKey>;
export type Plan = ReturnType<typeof viewPlan>;
export type SecretKey = ReturnType<typeof viewSecretKey>;
export type WithKey<T> = T & { key: string; key_shown_once: true };
export type Rotated<T> = WithKey<T> & { previous_key: T };

/** A record together with its credential, which is returned only this once. */
export function withKey<T extends object>(view: T, text: string): WithKey<T> {
  return { ...view, key: text, key_shown_once: true };
}
