create index concurrently secret_keys_unrevoked on secret_keys (workspace_id, env, expires_at) where revoked_at is null;
create index concurrently tenants_undeleted on tenants (workspace_id, created_at, id) where deleted_at is null;
