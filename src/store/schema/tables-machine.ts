// Row types of the machine plane: idempotency, ingest, usage, saved rate counters.
import type { Env } from "../../kernel/credentials.ts";

export type IdempotencyRecordRow = {
  workspace_id: string;
  env: Env;
  scope_hash: string;
  fingerprint: string;
  token_hash: string;
  stolen: number;
  ttl_ms: number;
  lease_until: number;
  expires_at: number;
  completed_at: number | null;
  status: number | null;
  body_stored: number;
  stored_bytes: number;
  sealed_response: Uint8Array | null;
};

export type IdempotencyQuotaRow = { workspace_id: string; stored_bytes: number };

/** `used` is without the events of test credentials. */
export type IngestBudgetRow = { workspace_id: string; minute: number; used: number; test_used: number };

export type WrittenBytesRow = { workspace_id: string; env: Env; day: number; bytes: number };

export type IngestBatchRow = {
  workspace_id: string;
  body_hash: string;
  accepted: number;
  events_dropped: number;
  created_at: number;
};

/** A day on which nodes reported requests with keys of a project. `sampled`: not with every key's first one. */
export type TelemetryDayRow = { project_id: string; env: Env; day: number; last_at: number; sampled: number };

/** Owners were notified that a key ends. `threshold` in days. */
export type KeyNoticeRow = { key_id: string; kind: "expiry" | "idle"; threshold: number; due_at: number };
export type KeyDigestRow = { workspace_id: string; day: number };

/** Idle keys that one commit revoked. */
export type IdleRevocationRow = { project_id: string; revoked_at: number; keys: number };

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
 * What a series counts. `kind` is project, tenant, key, route or tag:<name>; `name` the key, the route or "=" and the tag's
 * value; `tenant` the tenant, or for a tag the route. Empty: without one. `*`: everything above a cap.
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

/** The names that count against a cap, as JSON. */
export type UsageSeenRow = { workspace_id: string; scope: string; start: number; names: string };

export type RateCounterRow = { key: string; lapses_at: number; windows: string };
