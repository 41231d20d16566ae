-- The policy feed: nodes that hold policy with the version each has acknowledged, and the index that snapshots page by.

create table policy_nodes (
  project_id {id} not null references projects (id),
  node_id {id} not null,
  env_scope {id} not null check (env_scope in ('live', 'test', 'all')),
  version {int} not null check (version >= 0),
  last_seen_at {int} not null,
  primary key (project_id, node_id, env_scope)
) {rowless};
create index policy_nodes_seen on policy_nodes (last_seen_at);

create index api_keys_feed on api_keys (project_id, id) where revoked_at is null;
