-- To count and to revoke the keys of a project, or of a tenant in a project. revoked_at is in it so that counting reads only the
-- index.
create index api_keys_working on api_keys (workspace_id, project_id, tenant_id, revoked_at)
where revoked_at is null;
