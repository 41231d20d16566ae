-- Setup links of a server without an owner. Any process accepts a token that another one printed.
-- ended_at: the instance was claimed with one of them, a newer one took its place, or a backup was restored.
create table setup_tokens (
  token_hash {id} not null primary key,
  created_at {int} not null,
  expires_at {int} not null,
  ended_at {int}
) {rowless};

-- Whether any workspace has an owner.
create index memberships_owner on memberships (role) where role = 'owner';
