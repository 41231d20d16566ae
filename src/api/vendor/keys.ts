// API keys.
import { z } from "zod";
import { disableKey, enableKey } from "../../domain/keys/disabling.ts";
import { createKey, editKey, listKeys, revokeKey, rotateKey, showKey, type Revoked } from "../../domain/keys/keys.ts";
import type { Vendor } from "../../domain/core/actor.ts";
import type { Ctx } from "../../domain/core/context.ts";
import { lookUpKey } from "../../domain/keys/lookup.ts";
import { SEARCH_STATES, searchKeys } from "../../domain/keys/search.ts";
import type { ApiKey as ApiKeyView } from "../../domain/core/views.ts";
import { needsToServe, withNodeWarnings } from "../../domain/policy/needs.ts";
import { awaitRevocation } from "../../domain/policy/propagation.ts";
import { endpoint } from "../../http/endpoint.ts";
import { failField } from "../../kernel/errors.ts";
import { withFastPath } from "../../http/fast/fast-path.ts";
import {
  After,
  ById,
  Cursor,
  Env,
  Flag,
  listOf,
  Meta,
  Name,
  OverlapHours,
  RateLimits,
  Reason,
  Scopes,
  text,
  Timestamp,
  toMs,
  Uuid,
  Wait,
} from "../schemas.ts";
import { fastParseNewKey } from "./fast-new-key.ts";
import { ApiKey, ChangedApiKey, CreatedApiKey, RevokedApiKey, RotatedApiKey, SecretKey } from "./schemas.ts";

const NewKey = withFastPath(
  z.strictObject({
    project_id: Uuid,
    tenant_id: Uuid,
    env: Env,
    name: Name.optional(),
    scopes: Scopes.optional(),
    meta: Meta.optional(),
    rate_limits: RateLimits.nullable().optional(),
    expires_at: Timestamp.nullable().optional().describe("null = never; absent = as the project's key_policy says"),
  }),
  fastParseNewKey,
);

/** Names live nodes from which the key is withheld. */
function withKeyWarnings<T extends ApiKeyView>(ctx: Ctx<Vendor>, key: T) {
  const { project_id, env } = key;
  return withNodeWarnings(ctx, key, { project_id, env, needs: needsToServe(key), path: "key_prefix" });
}

export const keysCreate = endpoint("POST /v1/keys", {
  summary: "Create an API key for a tenant. The key is shown only in this response.",
  access: "keys.write",
  hot: "lanes/mint",
  body: NewKey,
  output: CreatedApiKey,
  status: 201,
  idempotent: true,
  failures: ["project_not_found", "tenant_not_found", "test_cannot_live"],
  emits: ["api_key.created"],
  handle: async (ctx, { body }) =>
    withKeyWarnings(ctx, await createKey(ctx, { ...body, expires_at: toMs(body.expires_at) })),
});

export const keysList = endpoint("GET /v1/keys", {
  summary: "List API keys, newest first; or those in a state, or that match a search, paged by cursor.",
  access: "keys.read",
  query: z.strictObject({
    project_id: Uuid.optional().describe("only keys of this project"),
    tenant_id: Uuid.optional().describe("only keys of this tenant"),
    env: Env.optional().describe("only keys of this environment"),
    include_revoked: Flag.default("false").describe("also list revoked keys"),
    limit: z.int().min(1).max(200).default(50).describe("keys on a page"),
    after: After,
    q: text(1, 100)
      .optional()
      .describe("words that a name of the key or its tenant begins with, a display prefix, or an id"),
    state: z.enum(SEARCH_STATES).optional().describe("only keys in this state"),
    within_days: z.int().min(1).max(365).optional().describe("with state=expiring: days until then; 7 by default"),
    cursor: Cursor.optional(),
  }),
  output: listOf(ApiKey).extend({ next_cursor: z.string().nullable().optional() }),
  failures: ["test_cannot_live", "credential_in_query"],
  handle: (ctx, { query: { q, state, within_days, cursor, after, ...query } }) => {
    const list = { ...query, include_revoked: query.include_revoked === "true" };
    if (q === undefined && state === undefined) {
      const [needless] = Object.entries({ within_days, cursor }).filter(([, value]) => value !== undefined);
      if (needless) throw failField("invalid_query", needless[0], "needs state or q");
      return listKeys(ctx, { ...list, after });
    }
    if (after !== undefined) throw failField("invalid_query", "after", "cannot be combined with state or q");
    return searchKeys(ctx, { ...list, q, state, within_days, cursor });
  },
});

export const keysLookup = endpoint("POST /v1/keys/lookup", {
  summary: "Look a whole key up: its record, whether a verifier would admit it, and every reason why not.",
  access: "keys.lookup",
  body: z.strictObject({ key: text(1, 512), scopes: Scopes.optional(), project_id: Uuid.optional() }),
  output: z.strictObject({
    object: z.literal("key_lookup"),
    kind: z.enum(["api_key", "secret_key", "other"]).nullable(),
    env: Env.nullable(),
    display_prefix: z.string().nullable(),
    well_formed: z.boolean(),
    found: z.boolean(),
    record: z.union([ApiKey, SecretKey]).nullable(),
    project: z.strictObject({ id: Uuid, name: z.string(), slug: z.string() }).nullable(),
    tenant: z.strictObject({ id: Uuid, external_id: z.string(), name: z.string().nullable() }).nullable(),
    admitted: z.boolean().nullable(),
    code: z.string().nullable(),
    reasons: z.array(z.strictObject({ code: z.string(), message: z.string(), since: Timestamp.nullable() })),
    nodes: z.strictObject({ live: z.int(), current: z.int() }).nullable(),
  }),
  failures: ["rate_limited"],
  handle: (ctx, { body }) => lookUpKey(ctx, body),
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
  output: ChangedApiKey,
  failures: ["key_not_found", "test_cannot_live", "revoked_not_editable", "quarantine_not_extendable"],
  emits: ["api_key.updated"],
  handle: async (ctx, { params, body }) =>
    withKeyWarnings(ctx, await editKey(ctx, params.id, { ...body, expires_at: toMs(body.expires_at) })),
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
