// Sums the events of one batch per key and day, and per tenant, project, environment and month. Each event counts as
// 1/sample_rate, so that a fleet that samples is not under-reported.
import type { Env } from "../../kernel/credentials.ts";
import { DAY_MS, MINUTE_MS, utcDay } from "../../kernel/durations.ts";
import { LoopShare } from "../../platform/event-loop.ts";
import type { KnownKey } from "../../store/queries/ingest.ts";
import type {
  KeyLastUseRow,
  KeyNetworkRow,
  TelemetryDayRow,
  UsageDayRow,
  UsageTenantMonthRow,
} from "../../store/schema/tables.ts";
import { type EventBatch, type CheckedEvents } from "./events.ts";
import { isFromOutside, NetworkSums } from "../usage/key-networks.ts";
import { LastUses } from "../usage/last-use.ts";
import type { WireEvent } from "./wire-event.ts";
import { SeriesBatch } from "../series/batch.ts";

const AHEAD_MS = 5 * MINUTE_MS;
const AGE_MAX_MS = 7 * DAY_MS;

/** `first` and `last` cover the admitted events; `used` is the newest of all events. */
type DaySum = UsageDayRow & { admitted: number; first: number; last: number; used: number };

export type IngestTotals = {
  accepted: number;
  days: UsageDayRow[];
  months: UsageTenantMonthRow[];
  /** Days on which keys of a project were reported. */
  reported: TelemetryDayRow[];
  /** Requests from outside the networks of keys. */
  networks: KeyNetworkRow[];
  /** The newest accepted event of each key. */
  lastUsed: Map<KnownKey, number>;
  /** The newest event of each key that named its client. */
  lastUses: KeyLastUseRow[];
  /** Projects and environments of requests that were decided degraded. */
  degraded: DegradedRequests[];
  /** Rows of the journal; null if series are off. */
  journal: Promise<string[]> | null;
  /** Malformed optional fields. */
  ignored: Readonly<Record<string, number>>;
};

type DegradedRequests = { project_id: string; env: Env };

type SumOptions = { now: number; series: boolean; lastUsedDetail: boolean };

/** Months since 1970-01, in UTC. */
export function monthOf(ms: number): number {
  const date = new Date(ms);
  return (date.getUTCFullYear() - 1970) * 12 + date.getUTCMonth();
}

/** One pass. Skips repeated request ids and events older than seven days. bench: ingest/batch */
export function sumEvents(
  workspace_id: string,
  batch: EventBatch,
  checked: CheckedEvents,
  { now, series: hasSeries, lastUsedDetail }: SumOptions,
): IngestTotals {
  const { events, sample_rate, node_id } = batch;
  const { times, keys } = checked;
  const seen = new Set<string>();
  const byDay = new Map<number, Map<KnownKey, DaySum>>();
  const months: Months = new Map();
  const series = hasSeries ? new SeriesBatch() : null;
  const networks = new NetworkSums();
  const lastUses = new LastUses();
  const degraded = new Map<string, DegradedRequests>();
  let [accepted, day, today] = [0, -1, new Map<KnownKey, DaySum>()];
  let isSampled = sample_rate < 1;
  for (let i = 0; i < events.length; i++) {
    const event = events[i] as WireEvent;
    const sent = times[i] as number;
    if (sent < now - AGE_MAX_MS || seen.size === seen.add(event.request_id).size) continue;
    accepted++;
    const at = sent > now + AHEAD_MS ? now : sent;
    const weight = 1 / (event.sample_rate ?? sample_rate);
    if (weight > 1) isSampled = true;
    if (event.degraded) degraded.set(`${event.project_id} ${event.env}`, event);
    const admitted = (event.denial_reason ?? null) === null && (event.tenant_id ?? null) !== null;
    const key = keys[i];
    series?.add(event, key, at, weight);
    if (key) {
      if (utcDay(at) !== day) {
        day = utcDay(at);
        today = byDay.get(day) ?? new Map<KnownKey, DaySum>();
        byDay.set(day, today);
      }
      let sum = today.get(key);
      if (!sum) today.set(key, (sum = emptyDay(workspace_id, key.id, day)));
      addToDay(sum, at, weight, admitted, event.status >= 400);
      if (isFromOutside(event)) networks.add(workspace_id, key, event, at, weight);
      if (lastUsedDetail && (event.network !== undefined || event.user_agent !== undefined))
        lastUses.add(event, key, at, { workspace_id, node_id });
    } else if (admitted) {
      const { env, tenant_id, project_id } = event as WireEvent & { tenant_id: string };
      const sum = { month: monthOf(at), requests: weight, first: at, last: at };
      addToMonth(months, { workspace_id, env, tenant_id, project_id }, sum);
    }
  }
  const sampled = isSampled && !batch.key_first_daily ? 1 : 0;
  const journal = series && journalOf(series);
  const ignored = { ...series?.ignored, ...lastUses.ignored };
  const named = { networks: networks.rows, lastUses: lastUses.rows, degraded: degradedOf(degraded) };
  return { accepted, journal, ignored, ...named, ...collect(byDay, months, sampled) };
}

/** Copies, so that the events are garbage before the next await. */
function degradedOf(found: ReadonlyMap<string, DegradedRequests>): DegradedRequests[] {
  return [...found.values()].map(({ project_id, env }) => ({ project_id, env }));
}

/**
 * Serializes early, because the sums take more memory than their text, and yields, because a batch may have tens of
 * thousands.
 */
async function journalOf(series: SeriesBatch): Promise<string[]> {
  const loop = new LoopShare();
  const rows: string[] = [];
  for (const row of series.encode()) {
    rows.push(row);
    await loop.yieldIfDue();
  }
  return rows;
}

function emptyDay(workspace_id: string, key_id: string, day: number): DaySum {
  return { workspace_id, key_id, day, requests: 0, errors: 0, admitted: 0, first: Infinity, last: 0, used: 0 };
}

function addToDay(sum: DaySum, at: number, weight: number, admitted: boolean, failed: boolean): void {
  sum.requests += weight;
  if (failed) sum.errors += weight;
  if (at > sum.used) sum.used = at;
  if (!admitted) return;
  sum.admitted += weight;
  if (at < sum.first) sum.first = at;
  if (at > sum.last) sum.last = at;
}

type MonthOwner = Pick<UsageTenantMonthRow, "workspace_id" | "env" | "tenant_id" | "project_id">;

/** By tenant: a batch rarely has more than one row per tenant, so its rows are searched linearly. */
type Months = Map<string, UsageTenantMonthRow[]>;

function addToMonth(
  months: Months,
  owner: MonthOwner,
  { month, requests, first, last }: { month: number; requests: number; first: number; last: number },
): void {
  const { env, tenant_id, project_id } = owner;
  const rows = months.get(tenant_id) ?? [];
  if (rows.length === 0) months.set(tenant_id, rows);
  const row = rows.find((each) => each.month === month && each.env === env && each.project_id === project_id);
  if (!row) {
    rows.push({ ...owner, month, requests, first_seen_at: first, last_seen_at: last });
    return;
  }
  row.requests += requests;
  row.first_seen_at = Math.min(row.first_seen_at, first);
  row.last_seen_at = Math.max(row.last_seen_at, last);
}

/** `sampled`: 1 if the batch may lack a key that was used. */
function collect(byDay: Map<number, Map<KnownKey, DaySum>>, months: Months, sampled: number) {
  const days: UsageDayRow[] = [];
  const reported = new Map<string, TelemetryDayRow>();
  const lastUsed = new Map<KnownKey, number>();
  let project: TelemetryDayRow | undefined;
  for (const [day, sums] of byDay) {
    const month = monthOf(day * DAY_MS);
    for (const [key, sum] of sums) {
      days.push(sum);
      // The project of the last key is usually that of the next one.
      if (project?.project_id !== key.project_id || project.env !== key.env || project.day !== day)
        project = reportedDay(reported, { project_id: key.project_id, env: key.env, day, last_at: 0, sampled });
      project.last_at = Math.max(sum.used, project.last_at);
      lastUsed.set(key, Math.max(lastUsed.get(key) ?? 0, sum.used));
      if (sum.admitted === 0) continue;
      const { env, tenant_id, project_id } = key;
      const owner = { workspace_id: sum.workspace_id, env, tenant_id, project_id };
      addToMonth(months, owner, { month, requests: sum.admitted, first: sum.first, last: sum.last });
    }
  }
  return { days, months: [...months.values()].flat(), lastUsed, reported: [...reported.values()] };
}

function reportedDay(reported: Map<string, TelemetryDayRow>, row: TelemetryDayRow): TelemetryDayRow {
  const name = `${row.project_id} ${row.env} ${row.day}`;
  const found = reported.get(name);
  if (!found) reported.set(name, row);
  return found ?? row;
}
