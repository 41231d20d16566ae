create index tenants_confined on tenants (workspace_id, id) where allowed_cidrs <> '[]';
