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
import { awaitProjects } from "../../domain/policy/propagation.ts";
import { endpoint } from "../../http/endpoint.ts";
import { AfterQuery, ById, listOf, Meta, Name, EmptyBody, Reason, text, Uuid, Wait } from "../schemas.ts";
import { resumeTenant, suspendTenant, type Switched } from "../../domain/workspaces/suspension.ts";
import { SwitchedTenant, Tenant } from "./schemas.ts";

export const tenantsCreate = endpoint("POST /v1/tenants", {
  summary: "Create a tenant: one customer organisation.",
  access: "tenants.create",
  body: z.strictObject({ external_id: text(1, 200), name: Name.optional(), meta: Meta.optional() }),
  output: Tenant,
  status: 201,
  idempotent: true,
  failures: ["external_id_taken", "quota_reached"],
  emits: ["tenant.created"],
  handle: (ctx, { body }) => createTenant(ctx, body),
});

export const tenantsList = endpoint("GET /v1/tenants", {
  summary: "List tenants, newest first.",
  access: "resources.read",
  query: AfterQuery,
  output: listOf(Tenant),
  handle: (ctx, { query }) => listTenants(ctx, query),
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
  summary: "Change a tenant. meta is replaced completely; external_id cannot change.",
  access: "tenants.change",
  params: ById,
  body: z.strictObject({ name: Name.nullable().optional(), meta: Meta.optional() }),
  output: Tenant,
  failures: ["tenant_not_found"],
  emits: ["tenant.updated"],
  handle: (ctx, { params, body }) => editTenant(ctx, params.id, body),
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
  failures: ["tenant_not_found"],
  emits: ["tenant.embed_tokens_revoked"],
  handle: (ctx, { params }) => revokeEmbedTokens(ctx, params.id),
});

/** With `wait=true`, which nodes have acknowledged it. */
async function withPropagation(ctx: Ctx<Vendor>, wait: string, { tenant, affected_keys, projects }: Switched) {
  const switched = { ...tenant, affected_keys };
  if (wait !== "true") return switched;
  return { ...switched, propagation: await awaitProjects(ctx, projects, tenant.suspended_at !== null) };
}

export const tenantsSuspend = endpoint("POST /v1/tenants/{id}/suspend", {
  summary:
    "Suspend a tenant: its keys are refused until it is resumed. With wait=true the response comes once every live node has it.",
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
  summary: "Resume a suspended tenant. With wait=true the response comes once every live node has it.",
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
  output: z.strictObject({ object: z.literal("tenant"), id: Uuid, deleted: z.literal(true), revoked_keys: z.int() }),
  failures: ["tenant_not_found"],
  emits: ["tenant.deleted"],
  handle: (ctx, { params }) => deleteTenant(ctx, params.id),
});
