-- The embed plane: which origins are registered anywhere (asked by every preflight, which carries no token), and the
-- way from a key to its successor (asked before a customer rotates it again).
-- Origins stand here in the one spelling browsers send; workspaces.embed_origins keeps them as the vendor wrote them.
create table embed_origins (
  origin {id} not null,
  workspace_id {id} not null references workspaces (id),
  primary key (origin, workspace_id)
) {rowless};
create index embed_origins_workspace on embed_origins (workspace_id);

create index api_keys_successor on api_keys (rotated_from) where rotated_from is not null;
