-- Secret scanning: which test credentials were reported leaked. Nothing of them changes (decision 169), so only this
-- remembers that their owners have been told.

create table leak_notices (
  credential_id {id} not null primary key,
  workspace_id {id} not null references workspaces (id),
  noticed_at {int} not null
) {rowless};
