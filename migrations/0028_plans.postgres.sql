create index concurrently tenants_plan on tenants (workspace_id, plan_id, created_at, id) where plan_id is not null;
create index concurrently tenants_limits on tenants (workspace_id, id) where rate_limits is not null;
