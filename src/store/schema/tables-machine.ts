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

export type IngestBudgetRow = { workspace_id: string; minute: number; used: number };

export type IngestBatchRow = {
  workspace_id: string;
  body_hash: string;
  accepted: number;
  events_dropped: number;
  created_at: number;
};

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

export type RateCounterRow = { key: string; lapses_at: number; windows: string };
