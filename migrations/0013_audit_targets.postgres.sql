create index concurrently audit_log_target on audit_log (workspace_id, target_id, seq) where target_id is not null;
