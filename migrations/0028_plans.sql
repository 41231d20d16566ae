-- Plans: what tenants may do by default. `tenant_count` is the number of tenants that are on a plan and not deleted.
create table plans (
  id {id} not null primary key,
  workspace_id {id} not null references workspaces (id),
  name text not null,
  slug {id} not null,
  rate_limits text {json:rate_limits},
  scopes text {json:scopes},
  max_keys {int},
  key_ttl_days {int},
  meta text not null default '{}' {json:meta},
  tenant_count {int} not null default 0,
  created_at {int} not null,
  updated_at {int} not null,
  deleted_at {int}
) {table};
create unique index plans_slug on plans (workspace_id, slug) where deleted_at is null;
create index plans_list on plans (workspace_id, created_at, id);
-- Null: those of the plan, or of the project.
alter table tenants add column plan_id {id};
alter table tenants add column rate_limits text {json:rate_limits};
