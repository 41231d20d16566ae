-- Usage series: requests over time by project, tenant, key, route, outcome and tag.

-- The sums of each counted batch, written with it, until a job adds them to usage_rollups and deletes the row.
create table usage_journal (
  id {id} not null primary key,
  workspace_id {id} not null references workspaces (id),
  created_at {int} not null,
  data text not null
) {table};

-- What is counted: a project and environment, and within it a tenant, a key, a route or the value of a tag. An empty text is
-- "without one"; * stands for everything above a cap. tenant is a route where kind is a tag.
create table usage_groups (
  id {int} not null primary key,
  workspace_id {id} not null references workspaces (id),
  kind {id} not null,
  project_id {id} not null,
  env {id} not null check (env in ('live', 'test')),
  tenant {id} not null,
  name {id} not null
) {table};
create unique index usage_groups_identity on usage_groups (workspace_id, kind, name, tenant, project_id, env);

-- grain 1: the minutes of an hour, 2: an hour, 3: a UTC day. start counts hours (grain 1 and 2) or days since 1970. Sums of
-- 1/sample_rate, so they have fractions. detail: the sums of the minutes or quarters, and histograms of durations.
create table usage_rollups (
  group_id {int} not null,
  grain {int} not null,
  start {int} not null,
  outcome {id} not null,
  requests {real} not null,
  errors {real} not null,
  units {real} not null,
  detail text not null,
  primary key (group_id, grain, start, outcome)
) {rowless};

-- The names that count against a cap, as JSON, by the scope of the cap and the start of its day or hour in milliseconds.
create table usage_seen (
  workspace_id {id} not null references workspaces (id),
  scope {id} not null,
  start {int} not null,
  names text not null,
  primary key (workspace_id, scope, start)
) {rowless};
