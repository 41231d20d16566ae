-- The push of usage to a metering system.

-- Hours since 1970 in which live tenants of a workspace had requests. changes counts the transactions that added some;
-- checked is its value when the push last looked. changed_at: the first change since then.
create table usage_hours (
  hour {int} not null,
  workspace_id {id} not null references workspaces (id),
  changes {int} not null,
  checked {int} not null default 0,
  changed_at {int} not null,
  primary key (hour, workspace_id)
) {rowless};
create index usage_hours_unchecked on usage_hours (hour, workspace_id) where changes > checked;

-- What was pushed of an hour of a tenant and project, which group_id names. parts: units, requests and errors of each part,
-- as a JSON list. sent of them were ever made; the receiver has accepted the first `settled`. refused: not to be sent again
-- until the operator says so.
create table metered_hours (
  hour {int} not null,
  group_id {int} not null,
  parts text not null {json:parts},
  sent {int} not null,
  settled {int} not null default 0,
  refused {int} not null default 0,
  primary key (hour, group_id)
) {rowless};
create index metered_hours_unsettled on metered_hours (refused, hour, group_id) where settled < sent;
