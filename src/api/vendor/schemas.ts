// Response schemas of the vendor plane, one per resource.
import { OVERAGES, REFILLS } from "../../kernel/quotas/quota.ts";
import { PERMISSIONS } from "../../domain/core/actor.ts";
import { z } from "zod";
import {
  Env,
  IpModeName,
  KeyCidrs,
  Meta,
  Quotas,
  RateLimits,
  SCOPE_MAX,
  Scopes,
  TenantCidrs,
  text,
  Timestamp,
  Uuid,
  distinct,
} from "../schemas.ts";
import { Propagation } from "./node-schemas.ts";

export const Workspace = z.strictObject({
  object: z.literal("workspace"),
  id: Uuid,
  name: z.string(),
  slug: z.string(),
  billing_email: z.string().nullable(),
  embed_origins: z.array(z.string()),
  created_at: Timestamp,
  updated_at: Timestamp,
});

const Days = z.int().min(1).max(3650).nullable().default(null);

export const KeyPolicyFields = z.strictObject({
  default_ttl_days: Days.describe("lifetime of new keys without an expiry of their own, in days; null = max_ttl_days"),
  max_ttl_days: Days.describe("maximum lifetime of new keys, in days; null = unlimited"),
  idle_revoke_days: z
    .int()
    .min(7)
    .max(3650)
    .nullable()
    .default(null)
    .describe("days after which an unused key is revoked; null = never"),
  notice_days: distinct(z.int().min(1).max(90), 0, 5)
    .default([])
    .describe("how many days before a key expires, or is revoked as idle, owners and admins get an email"),
  holder_rotate: z.boolean().default(false).describe("the holder of a key may rotate it with the key itself"),
});

export const KeyPolicy = KeyPolicyFields.superRefine(({ default_ttl_days, max_ttl_days }, check) => {
  if (default_ttl_days !== null && max_ttl_days !== null && default_ttl_days > max_ttl_days)
    check.addIssue({ code: "custom", path: ["default_ttl_days"], message: "must not be above max_ttl_days" });
});

export const ScopeCatalogue = z
  .array(
    z.strictObject({
      name: text(1, SCOPE_MAX),
      description: text(1, 500).nullable().default(null),
      default: z.boolean().default(false).describe("preselected in the portal and the dashboard"),
    }),
  )
  .max(200, { error: "must have at most 200 entries" })
  .refine((entries) => new Set(entries.map(({ name }) => name)).size === entries.length, {
    error: "must not repeat a name",
  });

export const Warnings = z
  .array(z.strictObject({ path: z.string(), message: z.string() }))
  .optional()
  .describe("the change was made, but may not do what you intended");

export const Project = z.strictObject({
  object: z.literal("project"),
  id: Uuid,
  name: z.string(),
  slug: z.string(),
  policy_version: z.int().min(1),
  default_rate_limits: RateLimits,
  key_policy: KeyPolicy.describe("rules for the project's keys"),
  scope_catalogue: ScopeCatalogue.describe("scopes offered in the portal and the dashboard; keys may have others"),
  created_at: Timestamp,
  updated_at: Timestamp,
  key_prefix: z.string().describe("how new API keys begin"),
  key_prefixes: z.array(z.string()).describe("all prefixes of its keys, the current one first"),
});

export const Tenant = z.strictObject({
  object: z.literal("tenant"),
  id: Uuid,
  external_id: z.string(),
  name: z.string().nullable(),
  meta: Meta,
  embed_epoch: z.int().min(1),
  created_at: Timestamp,
  updated_at: Timestamp,
  suspended_at: Timestamp.nullable(),
  suspended_reason: z.string().nullable(),
  allowed_cidrs: TenantCidrs,
  ip_mode: IpModeName,
  plan_id: Uuid.optional().describe("only if the tenant is on a plan"),
  rate_limits: RateLimits.optional().describe("only if the tenant has its own"),
  quotas: Quotas.optional().describe("only if the tenant has its own"),
});

export const Plan = z.strictObject({
  object: z.literal("plan"),
  id: Uuid,
  name: z.string(),
  slug: z.string(),
  rate_limits: RateLimits.nullable(),
  scopes: Scopes.nullable(),
  max_keys: z.int().nullable(),
  key_ttl_days: z.int().nullable(),
  quotas: Quotas,
  meta: Meta,
  tenants: z.int().describe("tenants on it; 10,000 means 10,000 or more"),
  created_at: Timestamp,
  updated_at: Timestamp,
});

const lifecycle = {
  expires_at: Timestamp.nullable(),
  revoked_at: Timestamp.nullable(),
  revoked_reason: z.string().nullable(),
  quarantined_at: Timestamp.nullable(),
  quarantine_reason: z.string().nullable(),
  rotated_from: Uuid.nullable(),
  created_at: Timestamp,
  last_used_at: Timestamp.nullable(),
};

/** A field of keys in lists. */
export const WorkingSuccessor = Uuid.nullable().describe(
  "a working key that a rotation made of it; null for a key that is revoked or does not expire",
);

const shownOnce = { key: z.string(), key_shown_once: z.literal(true) };

export const ApiKey = z.strictObject({
  object: z.literal("api_key"),
  id: Uuid,
  project_id: Uuid,
  tenant_id: Uuid,
  env: Env,
  display_prefix: z.string(),
  name: z.string().nullable(),
  scopes: Scopes,
  meta: Meta,
  rate_limits: RateLimits.nullable(),
  ...lifecycle,
  disabled_at: Timestamp.nullable(),
  disabled_reason: z.string().nullable(),
  allowed_cidrs: KeyCidrs,
  ip_mode: IpModeName,
  quotas: Quotas.optional().describe("only if the key has its own"),
});
/** What nodes enforce for a key. */
export const LastUse = z
  .strictObject({
    at: Timestamp,
    network: z.string().nullable().describe("the /24 or /48 of the client; null when private or unknown"),
    user_agent: z.string().nullable().describe("the product name of its user agent"),
    node_id: z.string().describe("the node that reported it"),
  })
  .describe("the latest use for which a node reported one of these fields");

export const EffectiveRules = z.strictObject({
  rate_limits: RateLimits,
  rate_limits_source: z.enum(["key", "tenant", "plan", "project"]),
  scopes: Scopes,
  dropped_scopes: Scopes.describe("scopes of the key that its tenant's plan does not allow"),
  quotas: z.array(
    z.strictObject({
      id: z.string(),
      scope: z.enum(["key", "tenant"]),
      source: z.enum(["key", "tenant", "plan"]),
    }),
  ),
  plan_id: Uuid.nullable(),
  plan_name: z.string().nullable(),
  project_name: z.string().nullable().describe("null once it is deleted"),
  expires_at: Timestamp.nullable(),
});
const reasons = z.array(z.strictObject({ code: z.string(), message: z.string(), since: Timestamp.nullable() }));
const nodes = z.strictObject({
  live: z.int(),
  current: z.int(),
  withheld: z.int().describe("nodes that the key is withheld from"),
});
/** Whether an up-to-date node admits a key; `code`: its response where it does not. */
export const verdict = { admitted: z.boolean(), code: z.string().nullable(), reasons, nodes: nodes.nullable() };

export const MintedApiKey = ApiKey.extend(shownOnce);
export const CreatedApiKey = MintedApiKey.extend({ warnings: Warnings });
export const RotatedApiKey = MintedApiKey.extend({ previous_key: ApiKey });

const sums = { waited_ms: z.int(), acked_nodes: z.int(), total_nodes: z.int(), withheld_nodes: z.int() };
/** Propagation of a change of a tenant or plan, in each project where it has keys. */
const ProjectsPropagation = z.strictObject({
  complete: z.boolean(),
  ...sums,
  projects: z.array(z.strictObject({ project_id: Uuid, ...Propagation.shape })),
});
/** A field of the response to deleting a project or tenant. */
export const RevokedKeys = z.int().describe("keys revoked by this; above 500, the number when the request began");

export const SwitchedTenant = Tenant.extend({
  affected_keys: z.int().describe("keys of the tenant that are not revoked; above 500, when the request began"),
  propagation: ProjectsPropagation.optional(),
});
export const ChangedTenant = Tenant.extend({ propagation: ProjectsPropagation.optional(), warnings: Warnings });
export const ChangedPlan = Plan.extend({ propagation: ProjectsPropagation.optional() });

export const ChangedApiKeyState = ApiKey.extend({ propagation: Propagation.optional() });
export const ChangedApiKey = ChangedApiKeyState.extend({ warnings: Warnings });

export const SecretKey = z.strictObject({
  object: z.literal("secret_key"),
  id: Uuid,
  env: Env,
  display_prefix: z.string(),
  name: z.string().nullable(),
  meta: Meta,
  ...lifecycle,
  permissions: z.array(z.enum(PERMISSIONS)).nullable(),
  project_ids: z.array(Uuid).nullable(),
});
export const MintedSecretKey = SecretKey.extend(shownOnce);
export const RevokedSecretKey = SecretKey.extend({
  revoked_successors: z.int().optional().describe("number of successors revoked; only with successors"),
});
export const RotatedSecretKey = MintedSecretKey.extend({ previous_key: SecretKey });

export const Environment = z.strictObject({ object: z.literal("environment"), name: Env, billable: z.boolean() });

export const QuotaBalance = z.strictObject({
  object: z.literal("quota_balance"),
  id: z.string(),
  scope: z.enum(["key", "tenant"]).describe("owner of the balance: the key and its successors, or the whole tenant"),
  source: z.enum(["key", "tenant", "plan"]).describe("where the quota is defined"),
  env: Env,
  amount: z.int(),
  refill: z.enum(REFILLS),
  day: z.int().nullable(),
  time_zone: z.string(),
  overage: z.enum(OVERAGES),
  period_start: Timestamp.nullable(),
  resets_at: Timestamp.nullable(),
  granted: z.int().describe("unspent units of grants"),
  spent: z.int().describe("units charged in this period"),
  held: z.int().describe("units in leases of nodes"),
  remaining: z.int().min(0),
  exceeded: z.boolean().describe("more than the amount was spent"),
});
