// GET /v1/usage/series: decides which rows and buckets a request is about. The rows are read in a worker thread.
import { fail, failField } from "../../kernel/errors.ts";
import type { Env } from "../../kernel/credentials.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { keyById } from "../../store/queries/keys.ts";
import { isRanked, POINTS_MAX, type SeriesQuery } from "../../store/usage/series.ts";
import type { Grain, GroupBy, GroupFilter } from "../../store/usage/series-rows.ts";
import { projectsOf, type Vendor } from "../core/actor.ts";
import type { Ctx, Services } from "../core/context.ts";
import { requireProjectAccess, requireReadable, visibleEnv } from "../core/env-access.ts";
import { inThreadSlot } from "../core/read-slots.ts";
import { BUCKET_MS, calendarOf, edgesOf, requireTimeZone, type Bucket, type Calendar } from "./buckets.ts";
import { GRAIN } from "./rollups.ts";
import { DAYS_KEPT } from "../usage/usage.ts";

const BUCKETS_MAX = 3_000;
const DEFAULT_SPAN_MS = { minute: BUCKET_MS.hour, hour: BUCKET_MS.day, day: 30 * BUCKET_MS.day } as const;

type SeriesRequest = {
  bucket: Bucket;
  from?: number | undefined;
  to?: number | undefined;
  time_zone?: string | undefined;
  group_by: string;
  project_id?: string | undefined;
  env?: Env | undefined;
  tenant_id?: string | undefined;
  key_id?: string | undefined;
  outcome?: string | undefined;
  route?: string | undefined;
  top: number;
  latency: boolean;
};

/** The response as JSON text. */
export async function usageSeries(ctx: Ctx<Vendor>, request: SeriesRequest): Promise<string> {
  const { services, actor } = ctx;
  requireSeries(services);
  requireCombination(request);
  const env = visibleEnv(actor, request.env) ?? null;
  if (request.project_id !== undefined) requireProjectAccess(actor, request.project_id);
  if (request.key_id !== undefined) await requireKeyAccess(ctx, request.key_id);
  const projects = request.project_id === undefined ? projectsOf(actor) : [request.project_id];
  const { edges, time_zone, grain } = rangeOf(services, request);
  const group_by = request.group_by.startsWith("tag:") ? "tag" : (request.group_by as GroupBy);
  if (isRanked(group_by) && (edges.length - 1) * request.top > POINTS_MAX) throw tooManyPoints();
  const query: SeriesQuery = {
    workspace_id: actor.workspace_id,
    ...groupsOf(request, group_by, { projects, env }),
    group_by,
    outcome: request.outcome ?? null,
    top: request.top,
    latency: request.latency,
    range: { edges, grain },
    now: services.clock.now(),
    head: {
      object: "usage_series",
      bucket: request.bucket,
      from: formatTimestamp(edges[0] as number),
      to: formatTimestamp(edges.at(-1) as number),
      time_zone,
      group_by: request.group_by,
    },
  };
  const response = await inThreadSlot(ctx, () => services.store.readSeries(query));
  if (response === null) throw tooManyPoints();
  return response;
}

/** To a credential of some projects, a key of another one does not exist: zeros would say that it was not used. */
async function requireKeyAccess({ services, actor }: Ctx<Vendor>, id: string): Promise<void> {
  if (projectsOf(actor) === null) return;
  const key = await keyById.first(services.store.read, { workspace_id: actor.workspace_id, id });
  requireReadable(actor, key, "key_not_found");
}

function tooManyPoints(): Error {
  const message = `must be smaller, or the range shorter: at most ${POINTS_MAX} values in all`;
  return failField("invalid_query", "top", message);
}

export function requireSeries({ settings }: Services): void {
  if (!settings.series) throw fail("series_off");
}

/** Customers are not counted by route, tag or duration: there would be too many combinations. */
function requireCombination({ group_by, tenant_id, key_id, route, latency }: SeriesRequest): void {
  const byCustomer = group_by === "tenant" || group_by === "key";
  const ofCustomer = tenant_id !== undefined || key_id !== undefined;
  const byRoute = group_by === "route" || group_by.startsWith("tag:");
  const customers = byCustomer ? `group_by=${group_by}` : tenant_id === undefined ? "key_id" : "tenant_id";
  const refuse = (path: string): never => {
    throw failField("invalid_query", path, `cannot be combined with ${customers}`);
  };
  if (ofCustomer && byRoute) refuse("group_by");
  if ((byCustomer || ofCustomer) && route !== undefined) refuse("route");
  if ((byCustomer || ofCustomer) && latency) refuse("latency");
}

type Range = { edges: number[]; time_zone: string; grain: Grain };

function rangeOf(services: Services, request: SeriesRequest): Range {
  const { bucket, time_zone = "UTC" } = request;
  if (request.time_zone !== undefined && bucket !== "day")
    throw failField("invalid_query", "time_zone", "needs bucket=day");
  if (request.time_zone !== undefined) requireTimeZone(time_zone);
  const calendar = calendarOf(bucket, time_zone);
  const now = services.clock.now();
  const reach = reachOf(services, bucket, calendar, now);
  const end = calendar.next(calendar.startOf(now));
  const to = Math.min(request.to ?? end, end);
  const from = request.from ?? Math.max(reach, Math.min(to, now) - DEFAULT_SPAN_MS[bucket]);
  if (from >= to) throw failField("invalid_query", "from", "must be before to");
  requireKept(from, reach, bucket);
  const edges = edgesOf(calendar, from, to, BUCKETS_MAX);
  if (!edges) throw failField("invalid_query", "from", `must be later: at most ${BUCKETS_MAX} buckets`);
  return { edges, time_zone, grain: calendar.isLocal ? GRAIN.hour : GRAIN[bucket] };
}

/** The start of the oldest bucket that is kept whole. Days of another zone than UTC are made of hours. */
export function reachOf({ settings }: Services, bucket: Bucket, calendar: Calendar, now: number): number {
  if (bucket === "minute") return calendar.startOf(now - settings.series_minutes);
  if (bucket === "hour") return calendar.startOf(now - settings.series_hours);
  if (!calendar.isLocal) return calendar.startOf(now - DAYS_KEPT * BUCKET_MS.day);
  return calendar.next(calendar.startOf(now - settings.series_hours));
}

export function requireKept(from: number, reach: number, bucket: Bucket): void {
  const message = `must be ${formatTimestamp(reach)} or later: older ${bucket}s are not kept`;
  if (from < reach) throw failField("invalid_query", "from", message);
}

type Scope = Pick<GroupFilter, "projects" | "env">;

/** The narrowest rows that distinguish everything the request names. */
function groupsOf(request: SeriesRequest, group_by: GroupBy, scope: Scope): Pick<SeriesQuery, "base" | "listed"> {
  const { tenant_id: tenant, key_id, route } = request;
  const of = (kind: string, more: Pick<GroupFilter, "tenant" | "name"> = {}): GroupFilter => ({
    kind,
    ...scope,
    ...more,
  });
  if (key_id !== undefined) return { base: of("key", { tenant, name: key_id }), listed: null };
  const keys = group_by === "key" ? of("key", { tenant }) : null;
  if (tenant !== undefined) return { base: of("tenant", { tenant }), listed: keys };
  const base = route === undefined ? of("project") : of("route", { name: route });
  if (group_by === "tag") return { base, listed: of(request.group_by, route === undefined ? {} : { tenant: route }) };
  if (group_by === "tenant") return { base, listed: of("tenant") };
  if (group_by === "route" && route === undefined) return { base, listed: of("route") };
  return { base, listed: keys };
}
