// A part of a bucket of the usage export, read in a worker thread: a line for each tenant, or key, that had traffic.
// Returned as text.
import { createHash } from "node:crypto";
import { canonicalize } from "../../kernel/audit/canonical.ts";
import type { Env } from "../../kernel/credentials.ts";
import { DAY_MS, MINUTE_MS } from "../../kernel/durations.ts";
import { quoted, withoutFormula } from "../../kernel/text/csv.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { namesOf, type Named } from "./series-labels.ts";
import { hasNoKey, readGroupPage, type ExportGroups, type GroupPosition } from "./export-groups.ts";
import { readBuckets, type Group, type Range } from "./series-rows.ts";
import type { Source } from "../offline/source.ts";

/** Events are accepted up to seven days late, and up to five minutes early. */
const FINAL_AFTER_MS = 7 * DAY_MS + 5 * MINUTE_MS;
/** A read ends after as many lines, or groups without traffic. */
const [LINES_ENOUGH, GROUPS_MAX] = [1_000, 50_000];

export type ExportBy = "tenant" | "key";
export type ExportFormat = "ndjson" | "csv";

export type ExportQuery = {
  workspace_id: string;
  by: ExportBy;
  bucket: "day" | "hour";
  format: ExportFormat;
  groups: ExportGroups;
  /** The range of one bucket. */
  range: Range;
  /** Everything that was reported before this time is counted. */
  as_of: number;
  /** The last group that was read before. */
  after: GroupPosition;
};

/** Whole lines, and where the bucket continues. */
export type ExportPart = { text: string; next: GroupPosition | null };

type UsageRow = {
  id: string;
  bucket_start: string;
  bucket_end: string;
  project_id: string;
  project_slug: string | null;
  env: Env;
  tenant_id: string;
  external_id: string | null;
  plan_id: string | null;
  key_id: string | null;
  requests: number;
  allowed: number;
  denied: number;
  errors: number;
  units: number;
  final: boolean;
};

const COLUMNS = [
  "id",
  "bucket_start",
  "bucket_end",
  "project_id",
  "project_slug",
  "env",
  "tenant_id",
  "external_id",
  "plan_id",
  "key_id",
  "requests",
  "allowed",
  "denied",
  "errors",
  "units",
  "final",
] as const satisfies (keyof UsageRow)[];

export const CSV_HEAD = `${COLUMNS.map((name) => `"${name}"`).join(",")}\r\n`;

/** The sums of a tenant, project and key. */
type ExportLine = {
  group: Group;
  key_id: string | null;
  allowed: number;
  denied: number;
  errors: number;
  units: number;
};

export async function exportPart(source: Source, query: ExportQuery): Promise<ExportPart> {
  const lines: ExportLine[] = [];
  let next: GroupPosition | null = query.after;
  for (let examined = 0; next && lines.length < LINES_ENOUGH && examined < GROUPS_MAX; ) {
    const page = await readGroupPage(source, query.workspace_id, query.groups, next);
    const found = await readLines(source, query, page.groups);
    lines.push(...found.filter(({ allowed, denied }) => allowed + denied > 0));
    examined += page.groups.length;
    ({ next } = page);
  }
  return { text: lines.length === 0 ? "" : await textOf(source, query, lines), next };
}

async function textOf(source: Source, query: ExportQuery, lines: readonly ExportLine[]): Promise<string> {
  const names = (named: Named, of: (group: Group) => string) =>
    namesOf(
      source,
      query.workspace_id,
      named,
      lines.map(({ group }) => of(group)),
    );
  const slugs = await names({ table: "projects", column: "slug" }, ({ project_id }) => project_id);
  const tenants = await names({ table: "tenants", column: "external_id" }, ({ tenant }) => tenant);
  const plans = await names({ table: "tenants", column: "plan_id" }, ({ tenant }) => tenant);
  const rows = lines.map((line) => rowOf(query, line, { slugs, tenants, plans }));
  return rows.map(query.format === "csv" ? csvLine : jsonLine).join("");
}

async function readLines(source: Source, query: ExportQuery, groups: readonly Group[]): Promise<ExportLine[]> {
  const byId = new Map(groups.map((group) => [group.id, group]));
  const lines = new Map<string, ExportLine>();
  await readBuckets(
    source,
    { ids: [...byId.keys()], outcome: null, range: query.range, latency: false, byOutcome: true },
    ({ group_id, outcome }, _bucket, { requests, errors, units }) => {
      const group = byId.get(group_id) as Group;
      // Requests without a key, and of keys above the cap of an hour, are one line of their tenant.
      const key_id = hasNoKey(group.name) ? null : group.name;
      const id = `${group.tenant} ${group.project_id} ${key_id ?? ""}`;
      let line = lines.get(id);
      if (!line) lines.set(id, (line = { group, key_id, allowed: 0, denied: 0, errors: 0, units: 0 }));
      if (outcome === "allowed") line.allowed += requests;
      else line.denied += requests;
      line.errors += errors;
      line.units += units;
    },
  );
  return [...lines].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, line]) => line);
}

/** By the ids of projects and tenants. The plan is today's. */
type Names = Record<"slugs" | "tenants" | "plans", ReadonlyMap<string, string | null>>;

function rowOf(
  { workspace_id, by, bucket, range, as_of }: ExportQuery,
  { group, key_id, ...sums }: ExportLine,
  { slugs, tenants, plans }: Names,
): UsageRow {
  const { project_id, env, tenant } = group;
  const [start = 0, end = 0] = range.edges;
  const bucket_start = formatTimestamp(start);
  const [allowed, denied] = [Math.round(sums.allowed), Math.round(sums.denied)];
  return {
    id: usageRowId([workspace_id, by, bucket, bucket_start, project_id, env, tenant, key_id]),
    bucket_start,
    bucket_end: formatTimestamp(end),
    project_id,
    project_slug: slugs.get(project_id) ?? null,
    env,
    tenant_id: tenant,
    external_id: tenants.get(tenant) ?? null,
    plan_id: plans.get(tenant) ?? null,
    key_id,
    requests: allowed + denied,
    allowed,
    denied,
    errors: Math.round(sums.errors),
    units: Math.round(sums.units),
    final: as_of > end + FINAL_AFTER_MS,
  };
}

/** The same bucket has the same id in every export, so that importers recognise it. */
export function usageRowId(identity: (string | null)[]): string {
  return createHash("sha256")
    .update(`keyrack-usage-v1\n${canonicalize(identity)}`)
    .digest("hex")
    .slice(0, 32);
}

function jsonLine(row: UsageRow): string {
  return `${JSON.stringify({ object: "usage_row", ...row })}\n`;
}

/** Every text is quoted. */
function csvLine(row: UsageRow): string {
  const cells = COLUMNS.map((name) => {
    const value = row[name];
    if (value === null) return "";
    if (typeof value !== "string") return String(value);
    return quoted(withoutFormula(value));
  });
  return `${cells.join(",")}\r\n`;
}
