-- Deleted projects and tenants whose keys are still being marked as revoked, in pieces. Until its row is gone, every reader
-- takes the keys of such a project or tenant as revoked at that time and for that reason.
create table cascades (
  id {id} not null primary key,
  workspace_id {id} not null references workspaces (id),
  cause text not null check (cause in ('tenant_deleted', 'project_deleted')),
  reason text not null,
  revoked_at {int} not null
) {rowless};
