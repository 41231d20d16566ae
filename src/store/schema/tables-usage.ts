// Row types of usage: daily and monthly figures, series, and the push.
import type { Env } from "../../kernel/credentials.ts";

export type UsageDayRow = { workspace_id: string; key_id: string; day: number; requests: number; errors: number };

export type UsageTenantMonthRow = {
  workspace_id: string;
  month: number;
  env: Env;
  tenant_id: string;
  project_id: string;
  requests: number;
  first_seen_at: number;
  last_seen_at: number;
};

/** The sums of one batch, as JSON, until they are added to the rollups. */
export type UsageJournalRow = { id: string; workspace_id: string; created_at: number; data: string };

/**
 * What a series counts. `kind` is project, tenant, key, route or tag:<name>; `name` the key, the route or "=" and the
 * tag's value; `tenant` the tenant, or for a tag the route. Empty: without one. `*`: everything above a cap.
 */
export type UsageGroupRow = {
  id: number;
  workspace_id: string;
  kind: string;
  project_id: string;
  env: Env;
  tenant: string;
  name: string;
};

/** A group without the number that the rollups know it by. */
export type UsageGroup = Omit<UsageGroupRow, "id">;

/** `grain` 1: the minutes of an hour, 2: an hour, 3: a UTC day; `start` in hours or days since 1970. */
export type UsageRollupRow = {
  group_id: number;
  grain: number;
  start: number;
  outcome: string;
  requests: number;
  errors: number;
  units: number;
  detail: string;
};

/** Hours since 1970 with requests of live tenants; the push has seen the first `checked` of the changes. */
export type UsageHourRow = {
  hour: number;
  workspace_id: string;
  changes: number;
  checked: number;
  changed_at: number;
};

/** What was pushed of an hour of a tenant and project. `parts`: units, requests and errors of each, as a JSON list. */
export type MeteredHourRow = {
  hour: number;
  group_id: number;
  parts: string;
  sent: number;
  settled: number;
  refused: number;
};

/** The names that count against a cap, as JSON. */
export type UsageSeenRow = { workspace_id: string; scope: string; start: number; names: string };

export type UsageTables = {
  usage_days: UsageDayRow;
  usage_tenant_months: UsageTenantMonthRow;
  usage_journal: UsageJournalRow;
  usage_groups: UsageGroupRow;
  usage_rollups: UsageRollupRow;
  usage_seen: UsageSeenRow;
  usage_hours: UsageHourRow;
  metered_hours: MeteredHourRow;
};
