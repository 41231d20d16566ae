create index audit_log_test on audit_log (workspace_id, seq)
where target_type not in ('api_key', 'secret_key') or instr(payload, '"env":"test"') > 0;
