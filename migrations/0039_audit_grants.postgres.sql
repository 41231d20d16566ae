create index concurrently audit_log_visible on audit_log (workspace_id, seq)
where target_type not in ('api_key', 'secret_key', 'quota_grant') or strpos(payload, '"env":"test"') > 0;
