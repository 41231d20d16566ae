-- The prefix of a project's new API keys, and every prefix that it has used, newest first, as a JSON list.
alter table projects add column key_prefix text not null default 'kr';
alter table projects add column key_prefixes text not null default '["kr"]';
-- Prefixes that a workspace has claimed: one prefix, one issuer, for ever. `kr` is everyone's and not in it.
create table key_prefixes (
  prefix {id} not null primary key,
  workspace_id {id} not null references workspaces (id),
  claimed_at {int} not null
) {rowless};
create index key_prefixes_workspace on key_prefixes (workspace_id);
