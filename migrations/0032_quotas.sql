-- Quotas: JSON lists on keys, tenants and plans; null: none of its own. Keys that rotation made share the balance of the first one.
alter table api_keys add column quotas text;
alter table api_keys add column lineage_id {id};
alter table tenants add column quotas text;
alter table plans add column quotas text;

-- What was taken of a quota in its current period. subject_id is a tenant or the first key of a lineage. calendar is refill, day
-- and time zone: another calendar is another balance. taken: all units, from_amount: those of the period's own amount; both
-- include units that processes hold and have not spent yet.
create table quota_balances (
  subject_id {id} not null,
  env {id} not null check (env in ('live', 'test')),
  quota_id {id} not null,
  calendar {id} not null,
  workspace_id {id} not null references workspaces (id),
  period_start {int} not null,
  taken {int} not null,
  from_amount {int} not null,
  used_at {int} not null,
  primary key (subject_id, env, quota_id, calendar)
) {rowless};
create index quota_balances_used on quota_balances (used_at);

-- Units that a process has taken and not spent, for display: after expires_at they count as spent.
create table quota_holdings (
  subject_id {id} not null,
  env {id} not null,
  quota_id {id} not null,
  calendar {id} not null,
  process_id {id} not null,
  period_start {int} not null,
  unspent {int} not null,
  held {int} not null,
  granted {int} not null,
  expires_at {int} not null,
  primary key (subject_id, env, quota_id, calendar, process_id)
) {rowless};
create index quota_holdings_expiry on quota_holdings (expires_at);

-- Units beside the amount, which outlive periods. key_id is the key that it was granted to, subject_id its lineage.
create table quota_grants (
  id {id} not null primary key,
  workspace_id {id} not null references workspaces (id),
  subject_id {id} not null,
  env {id} not null check (env in ('live', 'test')),
  quota_id {id} not null,
  tenant_id {id} not null,
  key_id {id},
  units {int} not null,
  remaining {int} not null,
  expires_at {int},
  reason text,
  reference {id},
  voided_at {int},
  created_at {int} not null
) {table};
create index quota_grants_list on quota_grants (subject_id, env, quota_id, created_at, id);
create index quota_grants_open on quota_grants (subject_id, env, quota_id, expires_at) where remaining > 0;
create unique index quota_grants_reference on quota_grants (subject_id, env, quota_id, reference) where reference is not null;
