-- Idempotency records and the bytes of their stored responses, by environment of a workspace. Replaces idempotency_quotas,
-- which processes of the previous release still write.
create table idempotency_cells (
  workspace_id {id} not null references workspaces (id),
  env {id} not null check (env in ('live', 'test')),
  records {int} not null,
  stored_bytes {int} not null,
  primary key (workspace_id, env)
) {rowless};
insert into idempotency_cells (workspace_id, env, records, stored_bytes)
  select workspace_id, env, count(*), sum(stored_bytes) from idempotency_records group by workspace_id, env;
