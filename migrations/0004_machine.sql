-- The machine plane: idempotency records, ingest budgets and receipts, usage figures, saved rate-limit counters.

-- token_hash is the SHA-256 of the lock token of whoever holds or completed the record. stored_bytes is what this row
-- has booked in idempotency_quotas; it outlives a new claim of an expired row, so that the sum stays true.
create table idempotency_records (
  workspace_id {id} not null references workspaces (id),
  env {id} not null check (env in ('live', 'test')),
  scope_hash {id} not null,
  fingerprint {id} not null,
  token_hash {id} not null,
  stolen {int} not null default 0 check (stolen in (0, 1)),
  ttl_ms {int} not null,
  lease_until {int} not null,
  expires_at {int} not null,
  completed_at {int},
  status {int},
  body_stored {int} not null default 0 check (body_stored in (0, 1)),
  stored_bytes {int} not null default 0,
  sealed_response {bytes},
  primary key (workspace_id, env, scope_hash)
) {table};
create index idempotency_records_expiry on idempotency_records (expires_at);

create table idempotency_quotas (
  workspace_id {id} not null primary key references workspaces (id),
  stored_bytes {int} not null
) {rowless};

-- The events a workspace was charged for in one UTC minute.
create table ingest_budgets (
  workspace_id {id} not null primary key references workspaces (id),
  minute {int} not null,
  used {int} not null
) {rowless};

-- The receipt of each batch by the SHA-256 of its body, kept for 24 hours: a retried batch is counted once.
create table ingest_batches (
  workspace_id {id} not null references workspaces (id),
  body_hash {id} not null,
  accepted {int} not null,
  events_dropped {int} not null,
  created_at {int} not null,
  primary key (workspace_id, body_hash)
) {rowless};
create index ingest_batches_age on ingest_batches (created_at);

-- Sums of 1/sample_rate, so they have fractions; they are rounded when read. day counts from 1970-01-01.
create table usage_days (
  workspace_id {id} not null references workspaces (id),
  key_id {id} not null,
  day {int} not null,
  requests {real} not null,
  errors {real} not null,
  primary key (key_id, day)
) {rowless};
create index usage_days_age on usage_days (day);

-- month counts from 1970-01. Kept for ever: billing reads it.
create table usage_tenant_months (
  workspace_id {id} not null references workspaces (id),
  month {int} not null,
  env {id} not null check (env in ('live', 'test')),
  tenant_id {id} not null,
  project_id {id} not null,
  requests {real} not null,
  first_seen_at {int} not null,
  last_seen_at {int} not null,
  primary key (workspace_id, month, env, tenant_id, project_id)
) {rowless};

-- In-process rate-limit counters with windows of a minute and more, so that a restart does not reset monthly quotas.
create table rate_counters (
  key {id} not null primary key,
  lapses_at {int} not null,
  windows text not null
) {rowless};
create index rate_counters_lapse on rate_counters (lapses_at);
