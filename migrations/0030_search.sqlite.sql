create index usage_journal_workspace on usage_journal (workspace_id, created_at);
