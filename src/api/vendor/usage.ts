// Usage and billing figures.
import { Readable } from "node:stream";
import { z } from "zod";
import { exportUsage } from "../../domain/usage/export.ts";
import { BUCKETS } from "../../domain/series/buckets.ts";
import { usageSeries } from "../../domain/series/series.ts";
import { showIpReport } from "../../domain/usage/key-networks.ts";
import { billing, keyUsage, tenantActivity } from "../../domain/usage/usage.ts";
import { endpoint } from "../../http/endpoint.ts";
import { HttpResponse, jsonTextResponse } from "../../http/response.ts";
import { ById, Day, Env, Flag, IpModeName, listOf, text, Timestamp, toMs, Usage, UsageDays, Uuid } from "../schemas.ts";

const Months = z.int().min(1).max(24);
/** Rows of a list that is read at once. */
const LIST_MAX = 10_000;
const MONTHS = "calendar months in UTC, up to the current one";

export const keysUsage = endpoint("GET /v1/keys/{id}/usage", {
  summary: "Show requests and errors of an API key per UTC day, oldest first, including days without traffic.",
  access: "keys.read",
  params: ById,
  query: UsageDays,
  output: Usage,
  failures: ["key_not_found"],
  handle: (ctx, { params, query }) => keyUsage(ctx, params.id, query.days),
});

export const keysIpReport = endpoint("GET /v1/keys/{id}/ip_report", {
  summary: "Show the networks outside the key's allowed_cidrs from which it was used, most requests first.",
  access: "keys.read",
  params: ById,
  query: z.strictObject({ days: z.int().min(1).max(30).default(7).describe("UTC days, up to today") }),
  output: z.strictObject({
    object: z.literal("ip_report"),
    key_id: Uuid,
    days: z.int(),
    mode: IpModeName.nullable().describe("mode of the list that applies to the key; null = no list applies"),
    data: z.array(
      z.strictObject({
        network: z.string().describe("a /24 (IPv4) or /48 (IPv6), other above 100 of a day, or unknown"),
        outcome: z.enum(["refused", "would_refuse"]),
        requests: z.int(),
        first_seen_at: Timestamp,
        last_seen_at: Timestamp,
      }),
    ),
  }),
  failures: ["key_not_found"],
  handle: (ctx, { params, query }) => showIpReport(ctx, params.id, query.days),
});

export const usageBilling = endpoint("GET /v1/usage/billing", {
  summary:
    "Show billable tenants per UTC month, newest first: those with an admitted live request, counted once across projects.",
  access: "usage.billing",
  query: z.strictObject({ months: Months.default(6).describe(MONTHS) }),
  output: listOf(z.strictObject({ object: z.literal("billable_tenant_month"), month: Day, active_tenants: z.int() })),
  handle: (ctx, { query }) => billing(ctx, query.months),
});

export const usageTenants = endpoint("GET /v1/usage/tenants", {
  summary:
    "Show admitted requests per tenant, project, environment and UTC month; combinations without traffic are left out.",
  access: "usage.tenants",
  query: z.strictObject({
    months: Months.default(1).describe(MONTHS),
    env: Env.optional().describe("only traffic of this environment"),
    limit: z.int().min(1).max(LIST_MAX).default(LIST_MAX).describe("rows to list: newest month, most requests first"),
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

const Counts = z.strictObject({ requests: z.int(), errors: z.int(), units: z.int() });
const Percentiles = z.array(z.number().nullable());
const points = {
  requests: z.array(z.int()),
  errors: z.array(z.int()).describe("responses with a status of 400 or above"),
  units: z.array(z.int()).describe("the cost of the allowed requests"),
  total: Counts,
  latency: z
    .strictObject({ p50: Percentiles, p95: Percentiles, p99: Percentiles })
    .optional()
    .describe("in milliseconds; only with latency=true"),
};

export const usageSeriesRead = endpoint("GET /v1/usage/series", {
  summary:
    "Show requests, errors and units over time, in total or by project, environment, tenant, key, outcome, route or tag.",
  access: "usage.series",
  query: z.strictObject({
    bucket: z.enum(BUCKETS).default("hour").describe("length of a bucket"),
    from: Timestamp.optional().describe(
      "start, rounded down to a bucket; by default 1 hour (minute), 24 hours (hour) or 30 days (day) before the end",
    ),
    to: Timestamp.optional().describe("end, rounded up to a bucket; now by default"),
    time_zone: text(1, 64).optional().describe("IANA time zone of the days, with bucket=day; UTC by default"),
    group_by: z
      .string()
      .regex(/^(none|project|tenant|key|outcome|route|env|tag:[a-z][a-z0-9_]{0,31})$/, {
        error: "must be none, project, tenant, key, outcome, route, env or tag:<name>",
      })
      .default("none")
      .describe("none, project, tenant, key, outcome, route, env or tag:<name>"),
    project_id: Uuid.optional().describe("only this project"),
    env: Env.optional().describe("only this environment"),
    tenant_id: Uuid.optional().describe("only this tenant"),
    key_id: Uuid.optional().describe("only this API key"),
    outcome: text(1, 64).optional().describe("only this outcome: allowed, or a denial code"),
    route: text(1, 600).optional().describe("only this route, with its method: GET /orders/:id"),
    top: z.int().min(1).max(100).default(10).describe("largest groups to list; the others are summed"),
    latency: Flag.default("false").describe("include latency percentiles (p50, p95, p99)"),
  }),
  output: z.strictObject({
    object: z.literal("usage_series"),
    bucket: z.enum(BUCKETS),
    from: Timestamp,
    to: Timestamp,
    time_zone: z.string(),
    group_by: z.string(),
    as_of: Timestamp.describe("everything that was reported before this time is included"),
    overflow: z.boolean().describe("whether some groups were counted together because there were too many"),
    buckets: z.array(Timestamp).describe("start of each bucket, without gaps"),
    series: z.array(z.strictObject({ group: z.string().nullable(), label: z.string().nullable(), ...points })),
    other: z.strictObject(points).nullable().describe("the groups that are not listed"),
    total: z.strictObject(points),
  }),
  failures: ["test_cannot_live", "project_not_found", "key_not_found", "series_off", "unavailable"],
  handle: async (ctx, { query: { from, to, latency, ...query } }) => {
    const request = { ...query, from: toMs(from) ?? undefined, to: toMs(to) ?? undefined, latency: latency === "true" };
    return jsonTextResponse(200, await usageSeries(ctx, request));
  },
});

const CONTENT_TYPES = { ndjson: "application/x-ndjson", csv: "text/csv; charset=utf-8; header=present" } as const;

export const usageExport = endpoint("GET /v1/usage/export", {
  summary:
    "Stream usage by tenant or key as JSON Lines or CSV, oldest bucket first, for billing systems. The header usage-as-of says up to when reports are included.",
  access: "usage.series",
  query: z.strictObject({
    from: Timestamp.describe("start of the first bucket"),
    to: Timestamp.describe("end of the last bucket, exclusive"),
    bucket: z.enum(["day", "hour"]).default("day").describe("length of a bucket"),
    by: z.enum(["tenant", "key"]).default("tenant").describe("one line per tenant, or per API key"),
    env: Env.optional().describe("environment; live by default, test with a test secret key"),
    project_id: Uuid.optional().describe("only this project"),
    tenant_id: Uuid.optional().describe("only this tenant"),
    format: z.enum(["ndjson", "csv"]).default("ndjson").describe("format of the lines"),
    time_zone: text(1, 64).optional().describe("IANA time zone of the days, with bucket=day; UTC by default"),
  }),
  output: z.string(),
  produces: ["application/x-ndjson", "text/csv"],
  failures: ["test_cannot_live", "project_not_found", "series_off", "rate_limited", "unavailable"],
  handle: async (ctx, { query: { from, to, ...query } }) => {
    const { as_of, pieces, cut, ended } = await exportUsage(ctx, { ...query, from: toMs(from), to: toMs(to) });
    const stream = Readable.from(pieces, { objectMode: false, signal: cut }).once("close", ended);
    return new HttpResponse(200, stream, { "content-type": CONTENT_TYPES[query.format], "usage-as-of": as_of });
  },
});
