create index tenants_metered on tenants (workspace_id, id) where quotas is not null;
create index api_keys_lineage on api_keys (lineage_id) where lineage_id is not null;
