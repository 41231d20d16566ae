// Reads a usage series in a worker thread: ranks the groups, then reads the buckets of the
// largest. The remainder is the difference to the total, which is stored apart. Returns the response as text, so that
// the main thread does not have to serialise it.
import { ABOVE_CAP, ALLOWED } from "../../kernel/usage/groups.ts";
import { percentile } from "../../kernel/usage/latency.ts";
import { addSums, copySums, type Sums } from "../../kernel/usage/sums.ts";
import { formatTimestamp } from "../../kernel/timestamps.ts";
import { labelsOf } from "./series-labels.ts";
import {
  rankGroups,
  readBuckets,
  readGroups,
  type Group,
  type GroupBy,
  type GroupFilter,
  type Range,
} from "./series-rows.ts";
import type { Source } from "../offline/source.ts";

export type SeriesQuery = {
  workspace_id: string;
  /** The groups whose sums are the total. */
  base: GroupFilter;
  /** The groups that are listed, if they are other rows than those of the total. */
  listed: GroupFilter | null;
  group_by: GroupBy;
  outcome: string | null;
  top: number;
  latency: boolean;
  range: Range;
  now: number;
  /** The first fields of the response. */
  head: Record<string, string>;
};

/** The outcome that replaces those above their cap; it is never above one itself. */
const OTHER_OUTCOME = "other";

type Matrix = Sums[];
type SeriesLine = { group: string | null; buckets: Matrix };

/** Maximum number of values of each kind in a response. */
export const POINTS_MAX = 100_000;

/** Returns null if the response would have too many values. */
export async function readSeries(source: Source, query: SeriesQuery): Promise<string | null> {
  await source.begin();
  try {
    return await readAll(source, query);
  } finally {
    await source.commit();
  }
}

async function readAll(source: Source, query: SeriesQuery): Promise<string | null> {
  const { workspace_id, group_by, top, latency, range } = query;
  const base = await readGroups(source, workspace_id, query.base);
  const parts = query.listed ? null : partsOf(query);
  const sums = await readSums(source, query, base, parts);
  const total = sums.total;
  const listed = query.listed ? await readListed(source, query, query.listed) : { lines: sums.lines, overflow: false };
  let { lines, overflow } = listed;
  if (group_by === "tag") lines = withUntagged(lines, total, overflow);
  if (group_by === "outcome") overflow = lines.some(({ group }) => group === OTHER_OUTCOME);
  overflow ||= await filterOverflows(source, query, base);
  lines = lines.map((line) => ({ ...line, requests: totalOf(line.buckets).requests })).toSorted(bySize);
  const shown = isRanked(group_by) ? lines.slice(0, top) : lines;
  if (shown.length * total.length > POINTS_MAX) return null;
  const rest = isRanked(group_by) ? restOf(total, shown) : null;
  const hasRest = rest !== null && totalOf(rest).requests > 0.5;
  const labels = await labelsOf(
    source,
    workspace_id,
    group_by,
    shown.map(({ group }) => group ?? ""),
  );
  const as_of = await asOf(source, workspace_id, query.now);
  return JSON.stringify({
    ...query.head,
    as_of: formatTimestamp(as_of),
    overflow,
    buckets: range.edges.slice(0, -1).map(formatTimestamp),
    series: shown.map(({ group, buckets }) => ({
      group,
      label: group === null ? null : (labels.get(group) ?? group),
      ...viewOf(buckets, latency),
    })),
    other: hasRest ? viewOf(rest, latency) : null,
    total: viewOf(total, latency),
  });
}

function bySize(a: SeriesLine & { requests: number }, b: SeriesLine & { requests: number }): number {
  return b.requests - a.requests || compareGroups(a.group, b.group);
}

function compareGroups(a: string | null, b: string | null): number {
  return (a ?? "") < (b ?? "") ? -1 : 1;
}

/** Groupings of which only the largest groups are listed. */
export function isRanked(group_by: GroupBy): boolean {
  return !["none", "outcome", "env"].includes(group_by);
}

/** How the rows of the total are grouped, if they are those that are listed. */
function partsOf({ group_by }: SeriesQuery): (group: Group, outcome: string) => string | null {
  if (group_by === "outcome") return (_group, outcome) => outcome;
  if (group_by === "env") return ({ env }) => env;
  if (group_by === "project") return ({ project_id }) => project_id;
  if (group_by === "tenant") return ({ tenant }) => tenant || null;
  if (group_by === "key" || group_by === "route") return ({ name }) => name || null;
  return () => null;
}

type PartOf = ReturnType<typeof partsOf>;

async function readSums(source: Source, query: SeriesQuery, groups: Group[], partOf: PartOf | null) {
  const total = emptyMatrix(query.range);
  const lines = new Map<string | null, Matrix>();
  const byId = new Map(groups.map((group) => [group.id, group]));
  const byOutcome = query.group_by === "outcome";
  await readBuckets(source, { ids: [...byId.keys()], byOutcome, ...query }, (row, bucket, sums) => {
    addSums(total[bucket] as Sums, sums);
    if (!partOf) return;
    const part = partOf(byId.get(row.group_id) as Group, row.outcome);
    let matrix = lines.get(part);
    if (!matrix) lines.set(part, (matrix = emptyMatrix(query.range)));
    addSums(matrix[bucket] as Sums, sums);
  });
  return { total, lines: [...lines].map(([group, buckets]): SeriesLine => ({ group, buckets })) };
}

/** What is listed when it is not stored with the total: the largest groups, by name. */
async function readListed(source: Source, query: SeriesQuery, filter: GroupFilter) {
  const { workspace_id, group_by, top, range } = query;
  const groups = await readGroups(source, workspace_id, filter);
  const above = groups.filter(({ name }) => name === ABOVE_CAP);
  if (group_by === "tag") above.push(...(await readAboveTagCaps(source, workspace_id, filter)));
  const usesDays = daysEqualHours(filter);
  const overflow = (await rankGroups(source, { ...query, usesDays }, idsOf(above))).size > 0;
  const named = groups.filter(({ name }) => name !== ABOVE_CAP);
  const nameOf = ({ tenant, name }: Group): string | null =>
    (group_by === "tenant" ? tenant : group_by === "tag" ? name.slice(1) : name) || null;
  const requests = await rankGroups(source, { ...query, usesDays: usesDays || !overflow }, idsOf(named));
  const byName = Map.groupBy(
    named.filter(({ id }) => requests.has(id)),
    nameOf,
  );
  const sizeOf = (members: Group[]): number => members.reduce((sum, { id }) => sum + (requests.get(id) ?? 0), 0);
  const largest = [...byName].toSorted(([a, as], [b, bs]) => sizeOf(bs) - sizeOf(as) || compareGroups(a, b));
  // All values of a tag are needed: what they lack of the total is untagged.
  const read = group_by === "tag" ? largest : largest.slice(0, top);
  const matrices = new Map<number, Matrix>();
  const lines = read.map(([group, members]): SeriesLine => {
    const buckets = emptyMatrix(range);
    for (const { id } of members) matrices.set(id, buckets);
    return { group, buckets };
  });
  const reading = { ids: [...matrices.keys()], byOutcome: false, ...query };
  await readBuckets(source, reading, ({ group_id }, bucket, sums) => {
    addSums((matrices.get(group_id) as Matrix)[bucket] as Sums, sums);
  });
  return { lines, overflow };
}

const idsOf = (groups: readonly Group[]): number[] => groups.map(({ id }) => id);

/** A key above the cap of an hour is in the row of its day, but not in that of the hour. */
const daysEqualHours = ({ kind }: GroupFilter): boolean => kind !== "key";

/** Whether requests of the route, key or outcome that a filter names may have been counted together with others. */
async function filterOverflows(source: Source, query: SeriesQuery, groups: readonly Group[]): Promise<boolean> {
  const { workspace_id, base, outcome, range } = query;
  const isAny = async (of: string | null, among: readonly Group[]): Promise<boolean> =>
    (await rankGroups(source, { outcome: of, range, usesDays: daysEqualHours(base) }, idsOf(among))).size > 0;
  if (base.name !== undefined) {
    const above = await readGroups(source, workspace_id, { ...base, name: ABOVE_CAP });
    if (await isAny(null, above)) return true;
  }
  return outcome !== null && outcome !== ALLOWED && isAny(OTHER_OUTCOME, groups);
}

/** Requests whose tag, or whose route with this tag, was counted together with others. */
async function readAboveTagCaps(source: Source, workspace_id: string, filter: GroupFilter): Promise<Group[]> {
  const names = await readGroups(source, workspace_id, { ...filter, kind: "tag:*", tenant: undefined });
  const routes =
    filter.tenant === undefined ? [] : await readGroups(source, workspace_id, { ...filter, tenant: ABOVE_CAP });
  return [...names, ...routes];
}

/** Requests without the tag; unknown if values were counted together. */
function withUntagged(lines: SeriesLine[], total: Matrix, overflow: boolean): SeriesLine[] {
  if (overflow) return lines;
  const buckets = restOf(total, lines);
  return totalOf(buckets).requests > 0.5 ? [...lines, { group: null, buckets }] : lines;
}

function emptyMatrix({ edges }: Range): Matrix {
  return Array.from({ length: edges.length - 1 }, () => ({ requests: 0, errors: 0, units: 0 }));
}

function restOf(total: Matrix, lines: SeriesLine[]): Matrix {
  const rest = total.map(copySums);
  for (const { buckets } of lines) for (const [i, sums] of buckets.entries()) addSums(rest[i] as Sums, sums, -1);
  return rest;
}

function totalOf(matrix: Matrix): Sums {
  const total: Sums = { requests: 0, errors: 0, units: 0 };
  for (const { requests, errors, units } of matrix) addSums(total, { requests, errors, units });
  return total;
}

const COUNTS = ["requests", "errors", "units"] as const;

/** Rounded per value; a difference of sampled sums may be a little below zero. */
const rounded = (value: number): number => Math.max(0, Math.round(value));

function viewOf(matrix: Matrix, latency: boolean) {
  const total = totalOf(matrix);
  const of = (name: (typeof COUNTS)[number]): number[] => matrix.map((sums) => rounded(sums[name]));
  const at = (part: number): (number | null)[] => matrix.map(({ bins }) => (bins ? percentile(bins, part) : null));
  return {
    requests: of("requests"),
    errors: of("errors"),
    units: of("units"),
    total: Object.fromEntries(COUNTS.map((name) => [name, rounded(total[name])])),
    ...(latency && { latency: { p50: at(0.5), p95: at(0.95), p99: at(0.99) } }),
  };
}

/** Everything that was counted before this time is in the series. */
async function asOf(source: Source, workspace_id: string, now: number): Promise<number> {
  const text = "select min(created_at) as oldest_at from usage_journal where workspace_id = $1";
  const [row] = await source.all<{ oldest_at: number | null }>(text, [workspace_id]);
  return Math.min(now, row?.oldest_at ?? now);
}
