-- To count and to revoke the keys of a project, or of a tenant in a project.
create index api_keys_working on api_keys (workspace_id, project_id, tenant_id) where revoked_at is null;
