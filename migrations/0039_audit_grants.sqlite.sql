create index audit_log_visible on audit_log (workspace_id, seq)
where target_type not in ('api_key', 'secret_key', 'quota_grant') or instr(payload, '"env":"test"') > 0;
