// Response schemas of the policy feed.
import { z } from "zod";
import { Env, IpModeName, RateLimits, Scopes, Timestamp, Uuid } from "../schemas.ts";

const entry = {
  key_id: Uuid,
  tenant_id: Uuid,
  env: Env,
  lookup_hash: z.string(),
  display_prefix: z.string(),
  scopes: Scopes,
  expires_at: Timestamp.nullable(),
  rate_limits: RateLimits,
  disabled: z.enum(["key", "tenant"]).optional().describe("refuse it with 403; only with the capability disabled"),
  allowed_cidrs: z
    .array(z.string())
    .optional()
    .describe("networks that it may be used from; absent = any; only with the capability cidr"),
  ip_mode: IpModeName.optional(),
  metered: z.literal(true).optional().describe("quotas apply: send quotas: true with each check; only with meter"),
};

const Removal = z.strictObject({
  change: z.literal("remove"),
  key_id: Uuid,
  tenant_id: Uuid,
  env: Env,
  lookup_hash: z.string(),
  display_prefix: z.string(),
  reason: z.enum(["revoked", "tenant_deleted", "project_deleted", "tenant_suspended", "disabled", "unsupported"]),
});

const about = { workspace_id: Uuid, project_id: Uuid, env: Env.nullable() };
const state = {
  version: z.int().min(1),
  project_deleted: z.boolean(),
  generated_at: Timestamp,
  key_prefixes: z.array(z.string()).optional().describe("prefixes of the project's keys; only with formats"),
};

export const PolicySnapshot = z.strictObject({
  object: z.literal("policy_snapshot"),
  ...about,
  ...state,
  keys: z.array(z.strictObject(entry)),
  next_cursor: z.string().nullable(),
});

export const PolicyDelta = z.strictObject({
  object: z.literal("policy_delta"),
  ...about,
  since: z.int().min(0),
  ...state,
  changes: z.array(z.union([z.strictObject({ change: z.literal("upsert"), ...entry }), Removal])),
});
