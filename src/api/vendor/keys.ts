// API keys.
import { z } from "zod";
import { disableKey, enableKey } from "../../domain/keys/disabling.ts";
import { createKey, editKey, listKeys, revokeKey, rotateKey, showKey, type Revoked } from "../../domain/keys/keys.ts";
import type { Vendor } from "../../domain/core/actor.ts";
import type { Ctx } from "../../domain/core/context.ts";
import { awaitRevocation } from "../../domain/policy/propagation.ts";
import { endpoint } from "../../http/endpoint.ts";
import { withFastPath } from "../../http/fast/fast-path.ts";
import {
  After,
  ById,
  Env,
  Flag,
  listOf,
  Meta,
  Name,
  OverlapHours,
  RateLimits,
  Reason,
  Scopes,
  Timestamp,
  toMs,
  Uuid,
} from "../schemas.ts";
import { fastParseNewKey } from "./fast-new-key.ts";
import { ApiKey, MintedApiKey, RevokedApiKey, RotatedApiKey } from "./schemas.ts";

const NewKey = withFastPath(
  z.strictObject({
    project_id: Uuid,
    tenant_id: Uuid,
    env: Env,
    name: Name.optional(),
    scopes: Scopes.optional(),
    meta: Meta.optional(),
    rate_limits: RateLimits.nullable().optional(),
    expires_at: Timestamp.optional(),
  }),
  fastParseNewKey,
);

export const keysCreate = endpoint("POST /v1/keys", {
  summary: "Create an API key for a tenant. The key is shown only in this response.",
  access: "keys.write",
  hot: "lanes/mint",
  body: NewKey,
  output: MintedApiKey,
  status: 201,
  idempotent: true,
  failures: ["project_not_found", "tenant_not_found", "test_cannot_live"],
  emits: ["api_key.created"],
  handle: (ctx, { body }) => createKey(ctx, { ...body, expires_at: toMs(body.expires_at) ?? undefined }),
});

export const keysList = endpoint("GET /v1/keys", {
  summary: "List API keys, newest first.",
  access: "keys.read",
  query: z.strictObject({
    project_id: Uuid.optional().describe("only keys of this project"),
    tenant_id: Uuid.optional().describe("only keys of this tenant"),
    env: Env.optional().describe("only keys of this environment"),
    include_revoked: Flag.default("false").describe("also list revoked keys"),
    limit: z.int().min(1).max(200).default(50).describe("keys on a page"),
    after: After,
  }),
  output: listOf(ApiKey),
  failures: ["test_cannot_live"],
  handle: (ctx, { query }) => listKeys(ctx, { ...query, include_revoked: query.include_revoked === "true" }),
});

export const keysShow = endpoint("GET /v1/keys/{id}", {
  summary: "Show an API key.",
  access: "keys.read",
  hot: "lanes/get-by-id",
  params: ById,
  output: ApiKey,
  failures: ["key_not_found"],
  handle: (ctx, { params }) => showKey(ctx, params.id),
});

export const keysUpdate = endpoint("PATCH /v1/keys/{id}", {
  summary: "Change an API key. Each field in the body replaces the stored value completely.",
  access: "keys.write",
  params: ById,
  body: z.strictObject({
    name: Name.nullable().optional(),
    scopes: Scopes.optional(),
    meta: Meta.optional(),
    rate_limits: RateLimits.nullable().optional(),
    expires_at: Timestamp.nullable().optional(),
  }),
  output: ApiKey,
  failures: ["key_not_found", "test_cannot_live", "revoked_not_editable", "quarantine_not_extendable"],
  emits: ["api_key.updated"],
  handle: (ctx, { params, body }) => editKey(ctx, params.id, { ...body, expires_at: toMs(body.expires_at) }),
});

export const keysRotate = endpoint("POST /v1/keys/{id}/rotate", {
  summary: "Rotate an API key. The old one keeps working for overlap_hours.",
  access: "keys.write",
  params: ById,
  body: z.strictObject({ overlap_hours: OverlapHours.default(24) }),
  output: RotatedApiKey,
  idempotent: true,
  failures: ["key_not_found", "test_cannot_live", "revoked_not_rotatable", "disabled_not_rotatable"],
  emits: ["api_key.rotated"],
  handle: (ctx, { params, body }) => rotateKey(ctx, params.id, body.overlap_hours),
});

const Wait = z.strictObject({
  wait: Flag.default("false").describe("respond once every live node has acknowledged the change"),
});

/** With `wait=true`, who has acknowledged the change. */
async function withPropagation(ctx: Ctx<Vendor>, wait: string, change: Revoked) {
  if (wait !== "true") return change.key;
  return { ...change.key, propagation: await awaitRevocation(ctx, change) };
}

export const keysRevoke = endpoint("POST /v1/keys/{id}/revoke", {
  summary: "Revoke an API key. With wait=true the response comes once every live node has acknowledged the revocation.",
  access: "keys.write",
  params: ById,
  query: Wait,
  body: z.strictObject({ reason: Reason.optional() }),
  output: RevokedApiKey,
  idempotent: true,
  failures: ["key_not_found", "test_cannot_live"],
  emits: ["api_key.revoked"],
  handle: async (ctx, { params, query, body }) =>
    withPropagation(ctx, query.wait, await revokeKey(ctx, params.id, body.reason)),
});

export const keysDisable = endpoint("POST /v1/keys/{id}/disable", {
  summary:
    "Disable an API key until it is enabled again. With wait=true the response comes once every live node has it.",
  access: "keys.write",
  params: ById,
  query: Wait,
  body: z.strictObject({ reason: Reason.optional() }),
  output: RevokedApiKey,
  idempotent: true,
  failures: ["key_not_found", "test_cannot_live", "revoked_not_editable", "older_process"],
  emits: ["api_key.disabled"],
  handle: async (ctx, { params, query, body }) =>
    withPropagation(ctx, query.wait, await disableKey(ctx, params.id, body.reason)),
});

export const keysEnable = endpoint("POST /v1/keys/{id}/enable", {
  summary: "Enable a disabled API key. With wait=true the response comes once every live node has it.",
  access: "keys.write",
  params: ById,
  query: Wait,
  body: z.strictObject({}),
  output: RevokedApiKey,
  idempotent: true,
  failures: ["key_not_found", "test_cannot_live", "revoked_not_editable"],
  emits: ["api_key.enabled"],
  handle: async (ctx, { params, query }) => withPropagation(ctx, query.wait, await enableKey(ctx, params.id)),
});
