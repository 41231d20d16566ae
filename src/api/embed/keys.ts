// The embed plane: a tenant's browser manages the tenant's keys. Tenant, project and environment come from the token
// only.
import { z } from "zod";
import {
  createEmbedKey,
  embedKeyUsage,
  embedQuotas,
  embedSession,
  listEmbedKeys,
  revokeEmbedKey,
  rotateEmbedKey,
} from "../../domain/embed/embed.ts";
import { endpoint } from "../../http/endpoint.ts";
import {
  After,
  ById,
  Env,
  Flag,
  listOf,
  Name,
  OverlapHours,
  Reason,
  Scopes,
  Timestamp,
  Usage,
  UsageDays,
  Uuid,
} from "../schemas.ts";
import { ApiKey, MintedApiKey, QuotaBalance, RotatedApiKey, ScopeCatalogue } from "../vendor/schemas.ts";

export const embedSessionShow = endpoint("GET /v1/embed/session", {
  summary: "Show what the token grants: project, environment, tenant, scopes and remaining lifetime.",
  access: "embed.use",
  output: z.strictObject({
    object: z.literal("embed_session"),
    project: z.strictObject({ id: Uuid, name: z.string(), slug: z.string() }),
    env: Env,
    test_mode: z.boolean(),
    tenant: z.strictObject({ id: Uuid, external_id: z.string(), name: z.string().nullable() }),
    scopes: z.array(z.string()),
    default_ttl_days: z.int().nullable().describe("lifetime of new keys, in days; null = unlimited"),
    scope_catalogue: ScopeCatalogue.describe("descriptions of the scopes that the token may grant"),
    expires_at: Timestamp,
    expires_in: z.int(),
    suspended: z
      .boolean()
      .describe("the tenant is suspended: its keys are refused, and none can be created or rotated"),
    accepts_idempotency_key: z
      .boolean()
      .describe("browsers may send Idempotency-Key; absent from servers of 0.1, which refuse it in the preflight"),
  }),
  handle: (ctx) => embedSession(ctx),
});

export const embedKeysList = endpoint("GET /v1/embed/keys", {
  summary: "List the tenant's keys, newest first.",
  access: "embed.use",
  scope: "keys:read",
  query: z.strictObject({
    include_revoked: Flag.default("false").describe("also list revoked keys"),
    limit: z.int().min(1).max(100).default(50).describe("keys to list"),
    after: After,
  }),
  output: listOf(ApiKey),
  handle: (ctx, { query }) => listEmbedKeys(ctx, { ...query, include_revoked: query.include_revoked === "true" }),
});

export const embedKeysCreate = endpoint("POST /v1/embed/keys", {
  summary: "Create a key for the tenant. The key is shown only in this response.",
  access: "embed.use",
  scope: "keys:write",
  idempotent: true,
  body: z.strictObject({ name: Name.optional(), scopes: Scopes.optional() }),
  output: MintedApiKey,
  status: 201,
  failures: ["embed_keys_cap", "plan_keys_cap", "tenant_is_suspended"],
  emits: ["api_key.created"],
  handle: (ctx, { body }) => createEmbedKey(ctx, body),
});

export const embedKeysRotate = endpoint("POST /v1/embed/keys/{id}/rotate", {
  summary: "Rotate a key. The old one keeps working for overlap_hours.",
  access: "embed.use",
  scope: "keys:write",
  idempotent: true,
  params: ById,
  body: z.strictObject({ overlap_hours: OverlapHours.default(24) }),
  output: RotatedApiKey,
  failures: [
    "key_not_found",
    "revoked_not_rotatable",
    "disabled_not_rotatable",
    "tenant_is_suspended",
    "expired_not_rotatable",
    "successor_still_valid",
  ],
  emits: ["api_key.rotated"],
  handle: (ctx, { params, body }) => rotateEmbedKey(ctx, params.id, body.overlap_hours),
});

export const embedKeysRevoke = endpoint("POST /v1/embed/keys/{id}/revoke", {
  summary: "Revoke a key. Repeating it has no effect.",
  access: "embed.use",
  scope: "keys:write",
  params: ById,
  body: z.strictObject({ reason: Reason.optional() }),
  output: ApiKey,
  failures: ["key_not_found"],
  emits: ["api_key.revoked"],
  handle: (ctx, { params, body }) => revokeEmbedKey(ctx, params.id, body.reason),
});

export const embedKeysUsage = endpoint("GET /v1/embed/keys/{id}/usage", {
  summary: "Show requests and errors of a key per UTC day, oldest first.",
  access: "embed.use",
  scope: "keys:read",
  params: ById,
  query: UsageDays,
  output: Usage,
  failures: ["key_not_found"],
  handle: (ctx, { params, query }) => embedKeyUsage(ctx, params.id, query.days),
});

export const embedQuotasList = endpoint("GET /v1/embed/quotas", {
  summary: "Show what is left of the tenant's quotas.",
  access: "embed.use",
  scope: "keys:read",
  output: z.strictObject({
    object: z.literal("list"),
    data: z.array(
      QuotaBalance.pick({
        object: true,
        id: true,
        amount: true,
        refill: true,
        resets_at: true,
        remaining: true,
        exceeded: true,
      }),
    ),
  }),
  handle: (ctx) => embedQuotas(ctx),
});
