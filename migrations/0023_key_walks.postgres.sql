create index concurrently api_keys_unrevoked_env on api_keys (workspace_id, env, created_at, id) where revoked_at is null;
create index concurrently api_keys_revoked_env on api_keys (workspace_id, env, created_at, id) where revoked_at is not null;
create index concurrently api_keys_expiry_env on api_keys (workspace_id, env, expires_at, id) where expires_at is not null and revoked_at is null;
create index concurrently api_keys_quarantined_env on api_keys (workspace_id, env, quarantined_at, id)
where quarantined_at is not null and revoked_at is null;
create index concurrently api_keys_disabled_env on api_keys (workspace_id, env, disabled_at, id)
where disabled_at is not null and revoked_at is null;
