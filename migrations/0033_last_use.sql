-- The newest reported use of each key that named the client: its /24 or /48, the product name of its user agent, and the node.
create table key_last_uses (
  key_id {id} primary key,
  workspace_id {id} not null references workspaces (id),
  at {int} not null,
  network text,
  user_agent text,
  node_id text not null
) {rowless};
