create index api_keys_env on api_keys (workspace_id, env) where revoked_at is null;
create index api_keys_expiry on api_keys (workspace_id, expires_at, id) where expires_at is not null and revoked_at is null;
create index api_keys_quarantined on api_keys (workspace_id, quarantined_at, id)
where quarantined_at is not null and revoked_at is null;
create index api_keys_revoked on api_keys (workspace_id, created_at, id) where revoked_at is not null;
create index api_keys_disabled on api_keys (workspace_id, disabled_at, id) where disabled_at is not null and revoked_at is null;
