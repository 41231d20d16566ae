// The stored rows of usage series: groups by what is asked for, and their sums by bucket.
import type { Env } from "../../kernel/credentials.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../kernel/durations.ts";
import { decodeParts, type Sums } from "../../kernel/usage/sums.ts";
import { jsonList } from "../engine/raw-query.ts";
import type { UsageGroupRow, UsageRollupRow } from "../schema/tables.ts";
import type { Source } from "../offline/source.ts";

const MINUTES = 1;
const HOURS = 2;
const DAYS = 3;
/** The size of a row, and of the parts in its detail, by grain. */
const SIZE_MS = { [MINUTES]: HOUR_MS, [HOURS]: HOUR_MS, [DAYS]: DAY_MS } as const;
const PART_MS = { [MINUTES]: MINUTE_MS, [HOURS]: 15 * MINUTE_MS, [DAYS]: DAY_MS } as const;

export type GroupBy = "none" | "project" | "tenant" | "key" | "outcome" | "route" | "env" | "tag";
export type Grain = typeof MINUTES | typeof HOURS | typeof DAYS;
export type Group = Omit<UsageGroupRow, "workspace_id">;

export type GroupFilter = {
  kind: string;
  /** Null: all. */
  projects: readonly string[] | null;
  env: Env | null;
  tenant?: string | undefined;
  name?: string | undefined;
};

/** The bounds of the buckets in milliseconds, and the rows that they are made of. */
export type Range = { edges: number[]; grain: Grain };

export async function readGroups(source: Source, workspace_id: string, filter: GroupFilter): Promise<Group[]> {
  const values: string[] = [workspace_id, filter.kind];
  const conditions = ["workspace_id = $1", "kind = $2"];
  for (const column of ["name", "tenant", "env"] as const) {
    const value = filter[column];
    if (value === undefined || value === null) continue;
    values.push(value);
    conditions.push(`${column} = $${values.length}`);
  }
  const text = `select id, kind, project_id, env, tenant, name from usage_groups where ${conditions.join(" and ")}`;
  const groups = await source.all<Group>(text, values);
  return filter.projects ? groups.filter(({ project_id }) => filter.projects?.includes(project_id)) : groups;
}

type Rows = { grain: Grain; from: number; to: number };
type Selection = { ids: readonly number[]; outcome: string | null };

/** `from` and `to` count hours or days. */
function rowsOf(source: Source, columns: string, { ids, outcome }: Selection, { grain, from, to }: Rows) {
  const values: (string | number)[] = [JSON.stringify(ids), grain, from, to];
  const where = `group_id in ${jsonList(source.kind, "$1", "bigint")} and grain = $2 and start >= $3 and start < $4`;
  if (outcome !== null) values.push(outcome);
  const text = `select ${columns} from usage_rollups where ${where}${outcome === null ? "" : " and outcome = $5"}`;
  return { text, values };
}

/** `outcome` is only there if it was asked for. */
type OnSums = (row: Pick<UsageRollupRow, "group_id" | "outcome">, bucket: number, sums: Sums) => void;

/** `byOutcome`: the sums of each outcome. Without it the database may add them up, which gives fewer rows. */
type Reading = Selection & { range: Range; latency: boolean; byOutcome: boolean };

/** Calls `add` for every stored sum, with the index of its bucket. */
export async function readBuckets(source: Source, reading: Reading, add: OnSums): Promise<void> {
  const { range, latency, byOutcome, ...selection } = reading;
  const { edges, grain } = range;
  const size = SIZE_MS[grain];
  const [from, to] = [edges[0] as number, edges.at(-1) as number];
  const needsDetail = latency || grain === MINUTES || edges.some((edge) => edge % size !== 0);
  const isSummed = !needsDetail && !byOutcome;
  const sums = ["requests", "errors", "units"].map((name) => (isSummed ? `sum(${name}) as ${name}` : name));
  const columns = ["group_id", "start", ...(isSummed ? [] : ["outcome"]), ...sums, ...(needsDetail ? ["detail"] : [])];
  const rows = { grain, from: Math.floor(from / size), to: Math.ceil(to / size) };
  const { text, values } = rowsOf(source, columns.join(", "), selection, rows);
  const bucketOf = bucketFinder(edges);
  for (const row of await source.all<UsageRollupRow>(isSummed ? `${text} group by group_id, start` : text, values)) {
    if (!needsDetail || row.detail === "") {
      add(row, bucketOf(row.start * size), { requests: row.requests, errors: row.errors, units: row.units });
      continue;
    }
    for (const [part, sums] of decodeParts(row.detail)) {
      const at = row.start * size + part * PART_MS[grain];
      if (at >= from && at < to) add(row, bucketOf(at), sums);
    }
  }
}

/** The index of the bucket that contains a time. */
function bucketFinder(edges: readonly number[]): (at: number) => number {
  const [first = 0, second = 0] = edges;
  const width = second - first;
  const isEven = edges.every((edge, i) => edge === first + i * width);
  if (isEven) return (at) => Math.floor((at - first) / width);
  return (at) => {
    let [low, high] = [0, edges.length - 1];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if ((edges[middle] as number) <= at) low = middle;
      else high = middle;
    }
    return low;
  };
}

/** `usesDays`: read whole days from their own rows, instead of those of their hours. */
type Ranking = { outcome: string | null; range: Range; usesDays: boolean };

/**
 * Requests of each group within the range; groups without any are left out. Reads whole days and hours where it can.
 */
export async function rankGroups(
  source: Source,
  { outcome, range, usesDays }: Ranking,
  ids: readonly number[],
): Promise<Map<number, number>> {
  const requests = new Map<number, number>();
  const add = (id: number, count: number): void => void requests.set(id, (requests.get(id) ?? 0) + count);
  if (ids.length === 0) return requests;
  const { whole, edges } = coverOf(range, usesDays);
  for (const rows of whole) {
    const { text, values } = rowsOf(source, "group_id, sum(requests) as requests", { ids, outcome }, rows);
    const sums = await source.all<{ group_id: number; requests: number }>(`${text} group by group_id`, values);
    for (const { group_id, requests: count } of sums) add(group_id, count);
  }
  for (const part of edges) {
    const bounds = { edges: part, grain: range.grain };
    await readBuckets(source, { ids, outcome, range: bounds, latency: false, byOutcome: false }, (row, _bucket, sums) =>
      add(row.group_id, sums.requests),
    );
  }
  return requests;
}

/** The range as whole days, whole hours, and parts of hours. */
function coverOf({ edges, grain }: Range, usesDays: boolean): { whole: Rows[]; edges: number[][] } {
  const [from, to] = [edges[0] as number, edges.at(-1) as number];
  if (grain === DAYS) return { whole: [{ grain, from: from / DAY_MS, to: to / DAY_MS }], edges: [] };
  const [h0, h1] = [Math.ceil(from / HOUR_MS), Math.floor(to / HOUR_MS)];
  if (h0 >= h1) return { whole: [], edges: [[from, to]] };
  const [d0, d1] = [Math.ceil(h0 / 24), Math.floor(h1 / 24)];
  const hours = (start: number, end: number): Rows => ({ grain: HOURS, from: start, to: end });
  const whole =
    usesDays && d0 < d1
      ? [hours(h0, d0 * 24), { grain: DAYS, from: d0, to: d1 } as Rows, hours(d1 * 24, h1)]
      : [hours(h0, h1)];
  const parts = [
    [from, h0 * HOUR_MS],
    [h1 * HOUR_MS, to],
  ];
  return { whole: whole.filter((rows) => rows.from < rows.to), edges: parts.filter(([a = 0, b = 0]) => a < b) };
}
