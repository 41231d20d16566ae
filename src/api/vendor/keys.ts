// API keys.
import { z } from "zod";
import { disableKey, enableKey } from "../../domain/keys/disabling.ts";
import { editKey } from "../../domain/keys/edits.ts";
import { rotateKey } from "../../domain/keys/key-rotation.ts";
import { createKey, listKeys, revokeKey, showKey } from "../../domain/keys/keys.ts";
import type { Vendor } from "../../domain/core/actor.ts";
import type { Ctx } from "../../domain/core/context.ts";
import { lookUpKey } from "../../domain/keys/lookup.ts";
import { KEY_SORTS, SEARCH_STATES } from "../../domain/search/keys.ts";
import { searchKeysWith, showKeyWith } from "../../domain/keys/included.ts";
import { awaitKeyChange, type KeyChange } from "../../domain/nodes/propagation.ts";
import { endpoint } from "../../http/endpoint.ts";
import { failField } from "../../kernel/errors.ts";
import { NOT_AN_ADDRESS, readAddress } from "../../kernel/network/address.ts";
import { withFastPath } from "../../http/fast/fast-path.ts";
import {
  After,
  ById,
  Cursor,
  Env,
  Flag,
  IpModeName,
  KeyCidrs,
  listOf,
  Meta,
  Name,
  OverlapHours,
  Quotas,
  RateLimits,
  Reason,
  SCOPE_MAX,
  Scopes,
  text,
  Timestamp,
  toIds,
  toMs,
  Uuid,
  Uuids,
  Wait,
} from "../schemas.ts";
import { fastParseNewKey } from "./fast-new-key.ts";
import {
  ApiKey,
  ChangedApiKey,
  ChangedApiKeyState,
  CreatedApiKey,
  EffectiveRules,
  LastUse,
  RotatedApiKey,
  SecretKey,
  verdict,
  WorkingSuccessor,
} from "./schemas.ts";

const OWN_LIMITS = "rate limits of this key; null = those of its tenant, plan or project; [] = none";

const NewKey = withFastPath(
  z.strictObject({
    project_id: Uuid.describe("project that the key is for"),
    tenant_id: Uuid.describe("tenant that the key belongs to"),
    env: Env.describe("environment of the key"),
    name: Name.optional().describe("name, shown in lists"),
    scopes: Scopes.optional().describe("scopes of the key, which your API can require"),
    meta: Meta.optional(),
    rate_limits: RateLimits.nullable().optional().describe(OWN_LIMITS),
    quotas: Quotas.nullable().optional().describe("quotas of this key, in addition to those of its tenant"),
    expires_at: Timestamp.nullable()
      .optional()
      .describe("when the key expires; null = never; absent = as the project's key_policy says"),
    allowed_cidrs: KeyCidrs.optional(),
    ip_mode: IpModeName.optional(),
  }),
  fastParseNewKey,
);

/** With `wait=true`, who has acknowledged the change. */
async function withPropagation(ctx: Ctx<Vendor>, wait: string, change: KeyChange) {
  if (wait !== "true") return change.key;
  return { ...change.key, propagation: await awaitKeyChange(ctx, change) };
}

export const keysCreate = endpoint("POST /v1/keys", {
  summary: "Create an API key for a tenant. The key is shown only in this response.",
  access: "keys.write",
  hot: "lanes/mint",
  body: NewKey,
  output: CreatedApiKey,
  status: 201,
  idempotent: true,
  failures: ["project_not_found", "tenant_not_found", "test_cannot_live", "plan_keys_cap", "older_process"],
  emits: ["api_key.created"],
  handle: (ctx, { body }) => createKey(ctx, { ...body, expires_at: toMs(body.expires_at) }),
});

export const keysList = endpoint("GET /v1/keys", {
  summary:
    "List API keys, newest first; or those in a state or that match a search, paged by cursor. A search waits up to two seconds until changed keys are indexed: those of env, or of both environments.",
  access: "keys.read",
  query: z.strictObject({
    project_id: Uuid.optional().describe("only keys of this project"),
    tenant_id: Uuid.optional().describe("only keys of this tenant"),
    env: Env.optional().describe("only keys of this environment"),
    ids: Uuids.optional().describe("only these keys: up to 200 ids, separated by commas"),
    include_revoked: Flag.default("false").describe("also list revoked keys"),
    limit: z.int().min(1).max(200).default(50).describe("keys on a page"),
    after: After,
    q: text(1, 100)
      .optional()
      .describe(
        "beginnings of words in the name of the key or its tenant; a display prefix with both underscores, such as kr_live_ or kr_live_ab; or an id",
      ),
    state: z.enum(SEARCH_STATES).optional().describe("only keys in this state"),
    within_days: z
      .int()
      .min(1)
      .max(365)
      .optional()
      .describe("with state=expiring: expires within this many days; 7 by default"),
    scope: text(1, SCOPE_MAX).optional().describe("only keys with exactly this scope"),
    unused_days: z
      .int()
      .min(1)
      .max(3650)
      .optional()
      .describe("only keys neither created nor used for this many days, longest unused first; 30 for state=idle"),
    sort: z
      .enum(KEY_SORTS)
      .optional()
      .describe("order: newest first, by name, next to expire first, or most recently used first"),
    include: z.enum(["last_used"]).optional().describe("last_used: also show where each key was last used from"),
    cursor: Cursor.optional(),
  }),
  output: listOf(ApiKey.extend({ last_used: LastUse.nullable().optional(), successor_id: WorkingSuccessor })).extend({
    next_cursor: z.string().nullable().optional(),
  }),
  failures: ["test_cannot_live", "credential_in_query", "search_indexing"],
  handle: (
    ctx,
    { query: { q, state, scope, unused_days, sort, within_days, include, cursor, after, ids, ...query } },
  ) => {
    const list = { ...query, include_revoked: query.include_revoked === "true" };
    const isSearch = [q, state, scope, unused_days, sort, include].some((value) => value !== undefined);
    if (!isSearch) {
      if (within_days !== undefined) throw failField("invalid_query", "within_days", "needs state=expiring");
      if (cursor !== undefined)
        throw failField("invalid_query", "cursor", "needs state, q, scope, unused_days, sort or include");
      return listKeys(ctx, { ...list, after, ids: toIds(ids) });
    }
    if (after !== undefined) throw failField("invalid_query", "after", "cannot be combined with a search: use cursor");
    if (ids !== undefined) throw failField("invalid_query", "ids", "cannot be combined with a search");
    return searchKeysWith(ctx, { ...list, q, state, scope, unused_days, sort, within_days, include, cursor });
  },
});

export const keysLookup = endpoint("POST /v1/keys/lookup", {
  summary: "Look up a key by its full text: its record, whether a node would admit it, and every reason why not.",
  access: "keys.lookup",
  body: z.strictObject({
    key: text(1, 512).describe("the full key"),
    scopes: Scopes.optional().describe("scopes to check the key against"),
    project_id: Uuid.optional().describe("project to check the key against: a key of another project is refused"),
    ip: text(1, 64)
      .refine((address) => readAddress(address) !== NOT_AN_ADDRESS, { error: "must be an IP address" })
      .optional()
      .describe("client address to check against the key's allowed_cidrs"),
  }),
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
    ...verdict,
    admitted: z.boolean().nullable(),
  }),
  failures: ["rate_limited", "share_full"],
  handle: (ctx, { body }) => lookUpKey(ctx, body),
});

const INCLUDE = /^(?:effective|last_used|successor|verdict)(?:,(?:effective|last_used|successor|verdict)){0,3}$/;
const INCLUDE_ERROR = "must be effective, last_used, successor or verdict, or several of them separated by commas";

export const keysShow = endpoint("GET /v1/keys/{id}", {
  summary: "Show an API key.",
  access: "keys.read",
  hot: "lanes/get-by-id",
  params: ById,
  query: z.strictObject({
    include: z
      .string()
      .regex(INCLUDE, { error: INCLUDE_ERROR, abort: true })
      .refine((names) => new Set(names.split(",")).size === names.split(",").length, { error: INCLUDE_ERROR })
      .optional()
      .describe(
        "what else to show, separated by commas. effective: the rules that nodes enforce, resolved from key, tenant, plan and project; last_used: where it was last used from; successor: the key that replaced it; verdict: whether a node would admit it, and every reason why not",
      ),
  }),
  output: ApiKey.extend({
    effective: EffectiveRules.optional(),
    last_used: LastUse.nullable().optional(),
    successor_id: Uuid.nullable().optional().describe("the key that replaced it at its last rotation"),
    verdict: z.strictObject(verdict).optional(),
  }),
  failures: ["key_not_found", "share_full"],
  handle: (ctx, { params, query }) =>
    query.include === undefined ? showKey(ctx, params.id) : showKeyWith(ctx, params.id, query.include.split(",")),
});

export const keysUpdate = endpoint("PATCH /v1/keys/{id}", {
  summary:
    "Change an API key. Each field given replaces the stored value completely. With wait=true, returns once every live node has the change.",
  access: "keys.write",
  params: ById,
  query: Wait,
  body: z.strictObject({
    name: Name.nullable().optional().describe("name, shown in lists"),
    scopes: Scopes.optional().describe("scopes of the key, which your API can require"),
    meta: Meta.optional(),
    rate_limits: RateLimits.nullable().optional().describe(OWN_LIMITS),
    quotas: Quotas.nullable().optional().describe("quotas of this key, in addition to those of its tenant"),
    expires_at: Timestamp.nullable().optional().describe("when the key expires; null = never"),
    allowed_cidrs: KeyCidrs.optional(),
    ip_mode: IpModeName.optional(),
  }),
  output: ChangedApiKey,
  failures: [
    "key_not_found",
    "test_cannot_live",
    "revoked_not_editable",
    "quarantine_not_extendable",
    "plan_keys_cap",
    "older_process",
  ],
  emits: ["api_key.updated"],
  handle: async (ctx, { params, query, body }) =>
    withPropagation(ctx, query.wait, await editKey(ctx, params.id, { ...body, expires_at: toMs(body.expires_at) })),
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

export const keysRevoke = endpoint("POST /v1/keys/{id}/revoke", {
  summary: "Revoke an API key. With wait=true, returns once every live node has acknowledged the revocation.",
  access: "keys.write",
  params: ById,
  query: Wait,
  body: z.strictObject({ reason: Reason.optional() }),
  output: ChangedApiKeyState,
  idempotent: true,
  failures: ["key_not_found", "test_cannot_live"],
  emits: ["api_key.revoked"],
  handle: async (ctx, { params, query, body }) =>
    withPropagation(ctx, query.wait, await revokeKey(ctx, params.id, body.reason)),
});

export const keysDisable = endpoint("POST /v1/keys/{id}/disable", {
  summary: "Disable an API key until it is enabled again. With wait=true, returns once every live node has the change.",
  access: "keys.write",
  params: ById,
  query: Wait,
  body: z.strictObject({ reason: Reason.optional() }),
  output: ChangedApiKeyState,
  idempotent: true,
  failures: ["key_not_found", "test_cannot_live", "revoked_not_editable", "older_process"],
  emits: ["api_key.disabled"],
  handle: async (ctx, { params, query, body }) =>
    withPropagation(ctx, query.wait, await disableKey(ctx, params.id, body.reason)),
});

export const keysEnable = endpoint("POST /v1/keys/{id}/enable", {
  summary: "Enable a disabled API key. With wait=true, returns once every live node has the change.",
  access: "keys.write",
  params: ById,
  query: Wait,
  body: z.strictObject({}),
  output: ChangedApiKeyState,
  idempotent: true,
  failures: ["key_not_found", "test_cannot_live", "revoked_not_editable"],
  emits: ["api_key.enabled"],
  handle: async (ctx, { params, query }) => withPropagation(ctx, query.wait, await enableKey(ctx, params.id)),
});
