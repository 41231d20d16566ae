// Tenants.
import { z } from "zod";
import {
  createTenant,
  deleteTenant,
  editTenant,
  listTenants,
  revokeEmbedTokens,
  showTenant,
} from "../../domain/workspaces/tenants.ts";
import type { Vendor } from "../../domain/core/actor.ts";
import type { Ctx } from "../../domain/core/context.ts";
import { NEEDED, warnOfNodes } from "../../domain/nodes/needs.ts";
import { awaitProjects } from "../../domain/nodes/propagation.ts";
import { endpoint } from "../../http/endpoint.ts";
import { failField } from "../../kernel/errors.ts";
import { NO_CAPS } from "../../kernel/policy/capabilities.ts";
import {
  AfterQuery,
  ById,
  Cursor,
  EmptyBody,
  IpModeName,
  listOf,
  Meta,
  Name,
  PAGE,
  Quotas,
  RateLimits,
  Reason,
  TenantCidrs,
  text,
  toIds,
  Uuid,
  Uuids,
  Wait,
} from "../schemas.ts";
import { searchTenants, TENANT_STATES } from "../../domain/search/tenants.ts";
import { resumeTenant, suspendTenant, type Switched } from "../../domain/workspaces/suspension.ts";
import { ChangedTenant, RevokedKeys, SwitchedTenant, Tenant } from "./schemas.ts";

const rules = {
  plan_id: Uuid.nullable().optional().describe("plan of the tenant; null = none"),
  rate_limits: RateLimits.nullable()
    .optional()
    .describe("rate limits of the tenant's keys; null = those of its plan, or else of the project"),
  allowed_cidrs: TenantCidrs.optional(),
  ip_mode: IpModeName.optional(),
  quotas: Quotas.nullable().optional().describe("quotas of the tenant; null = those of its plan"),
};

export const tenantsCreate = endpoint("POST /v1/tenants", {
  summary: "Create a tenant: one of your customers.",
  access: "tenants.create",
  body: z.strictObject({
    external_id: text(1, 200).describe("your own id of the customer; cannot be changed"),
    name: Name.optional(),
    meta: Meta.optional(),
    ...rules,
  }),
  output: Tenant,
  status: 201,
  idempotent: true,
  failures: ["external_id_taken", "quota_reached", "plan_not_found", "older_process"],
  emits: ["tenant.created"],
  handle: (ctx, { body }) => createTenant(ctx, body),
});

export const tenantsList = endpoint("GET /v1/tenants", {
  summary:
    "List tenants, newest first; or those that match a search, are on a plan or are in a state, paged by cursor.",
  access: "resources.read",
  query: AfterQuery.extend({
    ids: Uuids.optional().describe("only these tenants: up to 200 ids, separated by commas"),
    q: text(1, 100).optional().describe("beginnings of words in the external id or the name, or an id"),
    plan_id: Uuid.optional().describe("only tenants on this plan"),
    state: z.enum(TENANT_STATES).optional().describe("only tenants in this state"),
    cursor: Cursor.optional(),
  }),
  output: listOf(Tenant).extend({ next_cursor: z.string().nullable().optional() }),
  failures: ["credential_in_query", "search_indexing"],
  handle: (ctx, { query: { q, plan_id, state, cursor, ids, after, limit } }) => {
    if (q === undefined && plan_id === undefined && state === undefined) {
      if (cursor !== undefined) throw failField("invalid_query", "cursor", "needs q, plan_id or state");
      return listTenants(ctx, { after, limit, ids: toIds(ids) });
    }
    const [other] = Object.entries({ after, ids }).filter(([, value]) => value !== undefined);
    if (other) throw failField("invalid_query", other[0], "cannot be combined with q, plan_id or state");
    return searchTenants(ctx, { q, plan_id, state, limit: limit ?? PAGE, cursor });
  },
});

export const tenantsShow = endpoint("GET /v1/tenants/{id}", {
  summary: "Show a tenant.",
  access: "resources.read",
  params: ById,
  output: Tenant,
  failures: ["tenant_not_found"],
  handle: (ctx, { params }) => showTenant(ctx, params.id),
});

export const tenantsUpdate = endpoint("PATCH /v1/tenants/{id}", {
  summary:
    "Change a tenant. meta is replaced completely; external_id cannot change. With wait=true, returns once every live node has the change.",
  access: "tenants.change",
  params: ById,
  query: Wait,
  body: z.strictObject({ name: Name.nullable().optional(), meta: Meta.optional(), ...rules }),
  output: ChangedTenant,
  failures: ["tenant_not_found", "plan_not_found", "older_process"],
  emits: ["tenant.updated"],
  handle: async (ctx, { params, query, body }) => {
    const { tenant, projects, needs } = await editTenant(ctx, params.id, body);
    const holders = projects.map((project_id) => ({ project_id, env: null }));
    const shown = await warnOfNodes(ctx, tenant, holders, needs);
    return query.wait === "true" ? { ...shown, propagation: await awaitProjects(ctx, projects, needs) } : shown;
  },
});

export const tenantsRevokeEmbedTokens = endpoint("POST /v1/tenants/{id}/embed_tokens/revoke", {
  summary: "Revoke every embed token issued for a tenant so far.",
  access: "tenants.change",
  params: ById,
  body: EmptyBody,
  output: z.strictObject({
    object: z.literal("tenant"),
    id: Uuid,
    embed_epoch: z.int(),
    embed_tokens_revoked: z.literal(true),
  }),
  idempotent: true,
  failures: ["tenant_not_found", "rate_limited"],
  emits: ["tenant.embed_tokens_revoked"],
  handle: (ctx, { params }) => revokeEmbedTokens(ctx, params.id),
});

/** With `wait=true`, which nodes have acknowledged it. */
async function withPropagation(ctx: Ctx<Vendor>, wait: string, { tenant, affected_keys, projects }: Switched) {
  const switched = { ...tenant, affected_keys };
  if (wait !== "true") return switched;
  const needed = tenant.suspended_at === null ? NEEDED : NO_CAPS;
  return { ...switched, propagation: await awaitProjects(ctx, projects, needed) };
}

export const tenantsSuspend = endpoint("POST /v1/tenants/{id}/suspend", {
  summary:
    "Suspend a tenant: its keys are refused until it is resumed. With wait=true, returns once every live node has the change.",
  access: "tenants.change",
  params: ById,
  query: Wait,
  body: z.strictObject({ reason: Reason.optional() }),
  output: SwitchedTenant,
  idempotent: true,
  failures: ["tenant_not_found", "older_process"],
  emits: ["tenant.suspended"],
  handle: async (ctx, { params, query, body }) =>
    withPropagation(ctx, query.wait, await suspendTenant(ctx, params.id, body.reason)),
});

export const tenantsResume = endpoint("POST /v1/tenants/{id}/resume", {
  summary: "Resume a suspended tenant. With wait=true, returns once every live node has the change.",
  access: "tenants.change",
  params: ById,
  query: Wait,
  body: EmptyBody,
  output: SwitchedTenant,
  idempotent: true,
  failures: ["tenant_not_found"],
  emits: ["tenant.resumed"],
  handle: async (ctx, { params, query }) => withPropagation(ctx, query.wait, await resumeTenant(ctx, params.id)),
});

export const tenantsDelete = endpoint("DELETE /v1/tenants/{id}", {
  summary: "Delete a tenant and revoke its keys.",
  access: "tenants.change",
  params: ById,
  output: z.strictObject({
    object: z.literal("tenant"),
    id: Uuid,
    deleted: z.literal(true),
    revoked_keys: RevokedKeys,
  }),
  failures: ["tenant_not_found"],
  emits: ["tenant.deleted"],
  handle: (ctx, { params }) => deleteTenant(ctx, params.id),
});
