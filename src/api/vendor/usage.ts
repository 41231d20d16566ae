// Usage and billing figures.
import { z } from "zod";
import { billing, keyUsage, tenantActivity } from "../../domain/usage/usage.ts";
import { endpoint } from "../../http/endpoint.ts";
import { ById, Day, Env, listOf, Timestamp, Usage, UsageDays, Uuid } from "../schemas.ts";

const Months = z.int().min(1).max(24);
const MONTHS = "calendar months in UTC, up to the current one";

export const keysUsage = endpoint("GET /v1/keys/{id}/usage", {
  summary: "Requests and errors of an API key per UTC day, oldest first, including days without traffic.",
  access: "keys.read",
  params: ById,
  query: UsageDays,
  output: Usage,
  failures: ["key_not_found"],
  handle: (ctx, { params, query }) => keyUsage(ctx, params.id, query.days),
});

export const usageBilling = endpoint("GET /v1/usage/billing", {
  summary:
    "Billable tenants per UTC month, newest first: those with an admitted live request, counted once across projects.",
  access: "usage.billing",
  query: z.strictObject({ months: Months.default(6).describe(MONTHS) }),
  output: listOf(z.strictObject({ object: z.literal("billable_tenant_month"), month: Day, active_tenants: z.int() })),
  handle: (ctx, { query }) => billing(ctx, query.months),
});

export const usageTenants = endpoint("GET /v1/usage/tenants", {
  summary:
    "Admitted requests per tenant, project, environment and UTC month; combinations without traffic are left out.",
  access: "usage.tenants",
  query: z.strictObject({
    months: Months.default(1).describe(MONTHS),
    env: Env.optional().describe("only traffic of this environment"),
  }),
  output: listOf(
    z.strictObject({
      object: z.literal("tenant_activity_month"),
      tenant_id: Uuid,
      project_id: Uuid,
      env: Env,
      month: Day,
      request_count: z.int(),
      first_seen_at: Timestamp,
      last_seen_at: Timestamp,
    }),
  ),
  failures: ["test_cannot_live"],
  handle: (ctx, { query }) => tenantActivity(ctx, query),
});
