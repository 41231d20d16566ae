create index concurrently api_keys_working_env on api_keys (workspace_id, project_id, tenant_id, env, expires_at, revoked_at)
where revoked_at is null;
