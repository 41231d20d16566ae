create index audit_log_action on audit_log (workspace_id, action, seq) where action <> 'api_key.created';
create index audit_log_actor on audit_log (workspace_id, actor_id, seq) where actor_id is not null and actor_type <> 'secret_key';
create index audit_log_actor_type on audit_log (workspace_id, actor_type, seq) where actor_type <> 'secret_key';
