create index api_keys_expiry_state on api_keys (workspace_id, env, expires_at, id, disabled_at, tenant_id)
where expires_at is not null and revoked_at is null;
create index api_keys_quarantined_state on api_keys
  (workspace_id, env, quarantined_at, id, expires_at, disabled_at, tenant_id, project_id)
where quarantined_at is not null and revoked_at is null;
