-- What each environment of a workspace has written on a UTC day, about. day counts from 1970-01-01.
create table written_bytes (
  workspace_id {id} not null references workspaces (id),
  env {id} not null check (env in ('live', 'test')),
  day {int} not null,
  bytes {int} not null,
  primary key (workspace_id, env, day)
) {rowless};
create index written_bytes_day on written_bytes (day);
