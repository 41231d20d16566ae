// GET /v1/usage/export: usage by tenant or key as lines, one bucket after the other, for billing systems and
// warehouses.
import { failField } from "../../kernel/errors.ts";
import type { Env } from "../../kernel/credentials.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { FIRST_GROUP, type GroupPosition } from "../../store/usage/export-groups.ts";
import {
  CSV_HEAD,
  type ExportBy,
  type ExportFormat,
  type ExportPart,
  type ExportQuery,
} from "../../store/usage/export.ts";
import { oldestJournalRow } from "../../store/queries/series.ts";
import { projectsOf, type Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { piecesOf, startExport, type Export } from "../core/exports.ts";
import { requireProjectAccess, visibleEnv } from "../core/env-access.ts";
import { inThreadSlot } from "../core/read-slots.ts";
import { calendarOf, requireTimeZone, type Calendar } from "../series/buckets.ts";
import { GRAIN } from "../series/rollups.ts";
import { reachOf, requireKept, requireSeries } from "../series/series.ts";

/** With its line feed; a text in CSV quotes may contain line feeds, which does not matter here. */
const LINE = /[^\n]*\n/g;

type ExportRequest = {
  from: number;
  to: number;
  bucket: "day" | "hour";
  by: ExportBy;
  env?: Env | undefined;
  project_id?: string | undefined;
  tenant_id?: string | undefined;
  format: ExportFormat;
  time_zone?: string | undefined;
};

type UsageExport = Export & { as_of: string };

export async function exportUsage(ctx: Ctx<Vendor>, request: ExportRequest): Promise<UsageExport> {
  const { services, actor } = ctx;
  requireSeries(services);
  const env = visibleEnv(actor, request.env) ?? "live";
  if (request.project_id !== undefined) requireProjectAccess(actor, request.project_id);
  const projects = request.project_id === undefined ? projectsOf(actor) : [request.project_id];
  const calendar = requireBounds(ctx, request);
  const { workspace_id } = actor;
  const now = services.clock.now(); // before the journal is read: what is reported after that is later
  const oldest = await oldestJournalRow.first(services.store.read, { workspace_id });
  const as_of = Math.min(now, oldest?.created_at ?? now);
  const groups = { kind: request.by, projects, env, tenant: request.tenant_id };
  const query = { workspace_id, by: request.by, bucket: request.bucket, format: request.format, groups, as_of };
  const lines = exportLines(ctx, request, calendar, query);
  return { as_of: formatTimestamp(as_of), ...(await startExport(ctx, "usage_export", lines)) };
}

function requireBounds({ services }: Ctx<Vendor>, { bucket, from, to, time_zone = "UTC" }: ExportRequest): Calendar {
  if (time_zone !== "UTC" && bucket !== "day") throw failField("invalid_query", "time_zone", "needs bucket=day");
  requireTimeZone(time_zone);
  const calendar = calendarOf(bucket, time_zone);
  for (const [path, at] of Object.entries({ from, to }))
    if (calendar.startOf(at) !== at)
      throw failField("invalid_query", path, `must be the start of ${bucket === "hour" ? "an hour" : "a day"}`);
  if (from >= to) throw failField("invalid_query", "from", "must be before to");
  requireKept(from, reachOf(services, bucket, calendar, services.clock.now()), bucket);
  return calendar;
}

/** No bucket after the present one has traffic. Each is read in parts, when the client has taken the one before. */
async function* exportLines(
  ctx: Ctx<Vendor>,
  { from, to, bucket, format }: ExportRequest,
  calendar: Calendar,
  query: Omit<ExportQuery, "range" | "after">,
): AsyncGenerator<string, void> {
  const { store, clock } = ctx.services;
  if (format === "csv") yield CSV_HEAD;
  const grain = bucket === "hour" || calendar.isLocal ? GRAIN.hour : GRAIN.day;
  const end = Math.min(to, calendar.next(calendar.startOf(clock.now())));
  for (let start = from; start < end; start = calendar.next(start)) {
    const edges = [start, calendar.next(start)];
    for (let after: GroupPosition | null = FIRST_GROUP; after; ) {
      const part: ExportQuery = { ...query, range: { edges, grain }, after };
      const { text, next }: ExportPart = await inThreadSlot(ctx, () => store.exportUsage(part));
      yield* piecesOf(text.matchAll(LINE), ([line]) => line);
      await ctx.requireStillValid?.(); // also where there are no lines
      after = next;
    }
  }
}
