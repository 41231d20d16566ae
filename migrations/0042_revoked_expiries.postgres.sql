create index concurrently api_keys_revoked_expiry_env on api_keys (workspace_id, env, expires_at, id)
where expires_at is not null and revoked_at is not null;
