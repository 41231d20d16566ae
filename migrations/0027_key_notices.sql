-- Which ends of keys owners were notified of, each once; and the days on which a workspace got its digest.
create table key_notices (
  key_id {id} not null,
  kind {id} not null,
  threshold {int} not null,
  due_at {int} not null,
  primary key (key_id, kind, threshold, due_at)
) {rowless};
create index key_notices_due on key_notices (due_at);

create table key_digests (
  workspace_id {id} not null,
  day {int} not null,
  primary key (workspace_id, day)
) {rowless};
