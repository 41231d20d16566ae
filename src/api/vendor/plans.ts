// Plans.
import { z } from "zod";
import { createPlan, deletePlan, editPlan, listPlans, showPlan } from "../../domain/plans/plans.ts";
import { NEEDED } from "../../domain/nodes/needs.ts";
import { awaitProjects } from "../../domain/nodes/propagation.ts";
import { endpoint } from "../../http/endpoint.ts";
import { AfterQuery, ById, listOf, Meta, Name, Quotas, RateLimits, Scopes, Slug, Uuid, Wait } from "../schemas.ts";
import { ChangedPlan, Plan } from "./schemas.ts";

const fields = {
  rate_limits: RateLimits.nullable()
    .optional()
    .describe("rate limits of its tenants' keys; null = the project's default"),
  quotas: Quotas.optional().describe("quotas for each tenant on this plan, unless the tenant has its own"),
  scopes: Scopes.nullable().optional().describe("the only scopes that keys of its tenants may have; null = all"),
  max_keys: z
    .int()
    .min(1)
    .max(100_000)
    .nullable()
    .optional()
    .describe("maximum number of active keys of a tenant, in each environment; null = unlimited"),
  key_ttl_days: z
    .int()
    .min(1)
    .max(3650)
    .nullable()
    .optional()
    .describe("maximum lifetime of new keys, in days; null = unlimited"),
  meta: Meta.optional(),
};

export const plansCreate = endpoint("POST /v1/plans", {
  summary: "Create a plan: rate limits, quotas and key limits shared by tenants.",
  access: "plans.write",
  body: z.strictObject({ name: Name, slug: Slug, ...fields }),
  output: Plan,
  status: 201,
  idempotent: true,
  failures: ["slug_taken", "quota_reached", "older_process"],
  emits: ["plan.created"],
  handle: (ctx, { body }) => createPlan(ctx, body),
});

export const plansList = endpoint("GET /v1/plans", {
  summary: "List plans, newest first.",
  access: "resources.read",
  query: AfterQuery,
  output: listOf(Plan),
  handle: (ctx, { query }) => listPlans(ctx, query),
});

export const plansShow = endpoint("GET /v1/plans/{id}", {
  summary: "Show a plan.",
  access: "resources.read",
  params: ById,
  output: Plan,
  failures: ["plan_not_found"],
  handle: (ctx, { params }) => showPlan(ctx, params.id),
});

export const plansUpdate = endpoint("PATCH /v1/plans/{id}", {
  summary:
    "Change a plan, for all its tenants. Each field given replaces the stored value. With wait=true, returns once every live node has the change.",
  access: "plans.write",
  params: ById,
  query: Wait,
  body: z.strictObject({ name: Name.optional(), slug: Slug.optional(), ...fields }),
  output: ChangedPlan,
  failures: ["plan_not_found", "slug_taken", "older_process"],
  emits: ["plan.updated"],
  handle: async (ctx, { params, query, body }) => {
    const { plan, projects } = await editPlan(ctx, params.id, body);
    return query.wait === "true" ? { ...plan, propagation: await awaitProjects(ctx, projects, NEEDED) } : plan;
  },
});

export const plansDelete = endpoint("DELETE /v1/plans/{id}", {
  summary: "Delete a plan that no tenant uses.",
  access: "plans.write",
  params: ById,
  output: z.strictObject({ object: z.literal("plan"), id: Uuid, deleted: z.literal(true) }),
  failures: ["plan_not_found", "plan_in_use"],
  emits: ["plan.deleted"],
  handle: (ctx, { params }) => deletePlan(ctx, params.id),
});
