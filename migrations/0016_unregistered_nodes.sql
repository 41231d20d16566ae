-- Nodes that poll a project but are not registered, because it has as many live nodes as it may: while there are such,
-- no receipt can say that every node has a version. One row for the nodes that hold live keys, one for those of test.
create table unregistered_nodes (
  project_id {id} not null references projects (id),
  scope {id} not null check (scope in ('live', 'test')),
  nodes {int} not null check (nodes >= 1),
  last_seen_at {int} not null,
  primary key (project_id, scope)
) {rowless};
