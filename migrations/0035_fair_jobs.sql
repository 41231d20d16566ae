-- Jobs take the workspaces in turn: by workspace, then in the order of the work.
create index usage_journal_turns on usage_journal (workspace_id, id);
create index usage_hours_turns on usage_hours (workspace_id, hour) where changes > checked;
-- Replaced by one that also finds the keys of a tenant that have not expired.
drop index if exists api_keys_working;
