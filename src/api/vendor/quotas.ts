// Quotas: balances of keys and tenants, and grants beside them.
import { z } from "zod";
import { balanceEnv, keyBalances, tenantBalances } from "../../domain/quotas/balances.ts";
import { createGrant, listGrants, voidGrant, type GrantTarget } from "../../domain/quotas/grants.ts";
import type { Vendor } from "../../domain/core/actor.ts";
import type { Ctx } from "../../domain/core/context.ts";
import { endpoint } from "../../http/endpoint.ts";
import { jsonTextResponse } from "../../http/response.ts";
import { AMOUNT_MAX } from "../../kernel/quotas/quota.ts";
import { RULE_ID } from "../../kernel/ratelimit/rule.ts";
import { ById, Cursor, EmptyBody, Env, Limit, PAGE, Reason, text, Timestamp, toMs, Uuid } from "../schemas.ts";
import { QuotaBalance } from "./schemas.ts";

const Balances = z.strictObject({ object: z.literal("list"), data: z.array(QuotaBalance) });

const Grant = z.strictObject({
  object: z.literal("quota_grant"),
  id: Uuid,
  quota_id: z.string(),
  scope: z.enum(["key", "tenant"]),
  tenant_id: Uuid,
  key_id: Uuid.nullable(),
  env: Env,
  units: z.int(),
  remaining: z.int(),
  expires_at: Timestamp.nullable(),
  reason: z.string().nullable(),
  reference: z.string().nullable(),
  voided_at: Timestamp.nullable(),
  created_at: Timestamp,
});
const Grants = z.strictObject({ object: z.literal("list"), data: z.array(Grant), next_cursor: z.string().nullable() });

const EnvQuery = Env.optional().describe("environment; live by default, test with a test secret key");
const OfQuota = ById.extend({
  quota_id: z.string().regex(RULE_ID, "must be the id of a quota").describe("id of the quota"),
});
const NewGrant = z.strictObject({
  units: z.int().min(1).max(AMOUNT_MAX).describe("units to grant"),
  expires_at: Timestamp.optional().describe("when the units expire; never by default"),
  reason: Reason.optional(),
  reference: text(1, 200)
    .optional()
    .describe("your id for this grant, such as an invoice number; the same grant sent again has no effect"),
});
const GrantQuery = { limit: Limit.default(PAGE), cursor: Cursor.optional() };
const REPLAY = "The earlier grant with this reference. Nothing more was granted.";
const FAILURES = ["quota_not_found", "test_cannot_live", "grant_reference_used", "grants_reached"] as const;

export const keysQuotas = endpoint("GET /v1/keys/{id}/quotas", {
  summary: "Show the balances of the quotas that apply to an API key: its own and those of its tenant.",
  access: "keys.read",
  params: ById,
  output: Balances,
  failures: ["key_not_found"],
  handle: (ctx, { params }) => keyBalances(ctx, params.id),
});

export const tenantsQuotas = endpoint("GET /v1/tenants/{id}/quotas", {
  summary: "Show the balances of a tenant's quotas.",
  access: "tenant_quotas.read",
  params: ById,
  query: z.strictObject({ env: EnvQuery }),
  output: Balances,
  failures: ["tenant_not_found", "test_cannot_live"],
  handle: (ctx, { params, query }) => tenantBalances(ctx, params.id, balanceEnv(ctx.actor, query.env)),
});

type GrantBody = z.output<typeof NewGrant>;

/** A reference that was used before for as many units: 200 with the first grant. */
async function grant(ctx: Ctx<Vendor>, target: GrantTarget, { expires_at, ...body }: GrantBody) {
  const input = { ...body, ...(expires_at !== undefined && { expires_at: toMs(expires_at) }) };
  const { grant, isReplay } = await createGrant(ctx, target, input);
  return isReplay ? jsonTextResponse(200, JSON.stringify(grant), { "idempotent-replayed": "true" }) : grant;
}

const keyQuota = ({ id: key_id, quota_id }: z.output<typeof OfQuota>): GrantTarget => ({
  scope: "key",
  key_id,
  quota_id,
});
const tenantQuota = ({ id: tenant_id, quota_id }: z.output<typeof OfQuota>, env: "live" | "test" | undefined) =>
  ({ scope: "tenant", tenant_id, quota_id, env }) satisfies GrantTarget;

export const keysGrant = endpoint("POST /v1/keys/{id}/quotas/{quota_id}/grants", {
  summary: "Grant an API key extra units on top of one of its own quotas.",
  access: "keys.write",
  params: OfQuota,
  body: NewGrant,
  output: Grant,
  status: 201,
  replay: REPLAY,
  idempotent: true,
  failures: ["key_not_found", ...FAILURES],
  emits: ["quota_grant.created"],
  handle: (ctx, { params, body }) => grant(ctx, keyQuota(params), body),
});

export const keysGrants = endpoint("GET /v1/keys/{id}/quotas/{quota_id}/grants", {
  summary: "List the grants of an API key's quota, newest first.",
  access: "keys.read",
  params: OfQuota,
  query: z.strictObject(GrantQuery),
  output: Grants,
  failures: ["key_not_found", "quota_not_found"],
  handle: (ctx, { params, query }) => listGrants(ctx, keyQuota(params), query),
});

export const tenantsGrant = endpoint("POST /v1/tenants/{id}/quotas/{quota_id}/grants", {
  summary: "Grant a tenant extra units on top of one of its quotas.",
  access: "tenant_quotas.grant",
  params: OfQuota,
  body: NewGrant.extend({ env: EnvQuery }),
  output: Grant,
  status: 201,
  replay: REPLAY,
  idempotent: true,
  failures: ["tenant_not_found", ...FAILURES],
  emits: ["quota_grant.created"],
  handle: (ctx, { params, body: { env, ...body } }) => grant(ctx, tenantQuota(params, env), body),
});

export const tenantsGrants = endpoint("GET /v1/tenants/{id}/quotas/{quota_id}/grants", {
  summary: "List the grants of a tenant's quota, newest first.",
  access: "tenant_quotas.read",
  params: OfQuota,
  query: z.strictObject({ env: EnvQuery, ...GrantQuery }),
  output: Grants,
  failures: ["tenant_not_found", "quota_not_found", "test_cannot_live"],
  handle: (ctx, { params, query: { env, ...query } }) => listGrants(ctx, tenantQuota(params, env), query),
});

export const quotaGrantsVoid = endpoint("POST /v1/quota_grants/{id}/void", {
  summary: "Take back the unspent units of a grant.",
  access: "keys.write",
  params: ById,
  body: EmptyBody,
  output: Grant,
  idempotent: true,
  failures: ["grant_not_found", "test_cannot_live"],
  emits: ["quota_grant.voided"],
  handle: (ctx, { params }) => voidGrant(ctx, params.id),
});
