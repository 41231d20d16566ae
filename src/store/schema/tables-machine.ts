// Row types of the machine plane: idempotency, ingest, saved rate counters.
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

/** Written by processes of an earlier release. */
export type IdempotencyQuotaRow = { workspace_id: string; stored_bytes: number };

export type IdempotencyCellRow = { workspace_id: string; env: Env; records: number; stored_bytes: number };

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

export type EnvScope = Env | "all";

export type PolicyNodeRow = {
  project_id: string;
  node_id: string;
  env_scope: EnvScope;
  version: number;
  last_seen_at: number;
  /** The known capabilities that it announces, sorted and joined by commas. */
  caps: string;
  /** 1 when its secret key is unrestricted. */
  full_power: number;
  /** Its library as `name/version`, if it names one. */
  sdk: string | null;
  /** Null if a process of an earlier release registered it. */
  first_seen_at: number | null;
  /** When a request that it decided degraded was last reported, to about a minute. */
  degraded_at: number | null;
};

/** Nodes that poll but are not registered, by the environment whose keys they hold. */
export type UnregisteredNodesRow = { project_id: string; scope: Env; nodes: number; last_seen_at: number };

/** Requests from outside a key's networks on a UTC day. `network`: a /24 or /48, `other` above a cap, `unknown`. */
export type KeyNetworkRow = {
  key_id: string;
  day: number;
  network: string;
  outcome: "refused" | "would_refuse";
  workspace_id: string;
  requests: number;
  first_seen_at: number;
  last_seen_at: number;
};

/** The newest use of a key that named its client. `network`: a /24 or /48. */
export type KeyLastUseRow = {
  key_id: string;
  workspace_id: string;
  at: number;
  network: string | null;
  user_agent: string | null;
  node_id: string;
};

/** Idle keys that one commit revoked; `keys` are those of both environments. */
export type IdleRevocationRow = { project_id: string; revoked_at: number; keys: number; test_keys: number };

export type RateCounterRow = { key: string; lapses_at: number; windows: string };

export type MachineTables = {
  policy_nodes: PolicyNodeRow;
  unregistered_nodes: UnregisteredNodesRow;
  idempotency_records: IdempotencyRecordRow;
  idempotency_quotas: IdempotencyQuotaRow;
  idempotency_cells: IdempotencyCellRow;
  ingest_budgets: IngestBudgetRow;
  written_bytes: WrittenBytesRow;
  ingest_batches: IngestBatchRow;
  telemetry_days: TelemetryDayRow;
  idle_revocations: IdleRevocationRow;
  key_notices: KeyNoticeRow;
  key_digests: KeyDigestRow;
  key_networks: KeyNetworkRow;
  key_last_uses: KeyLastUseRow;
  rate_counters: RateCounterRow;
};
