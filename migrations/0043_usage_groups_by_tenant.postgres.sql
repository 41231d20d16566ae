create index concurrently usage_groups_by_tenant on usage_groups (workspace_id, kind, tenant, project_id, name);
