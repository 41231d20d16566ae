create index tenants_suspended on tenants (workspace_id, id) where suspended_at is not null;
