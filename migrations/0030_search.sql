-- Finding keys and tenants by words, scopes, names and last use.

-- Derived from keys and tenants, so a term may be out of date: what it leads to is compared again. kind is what the term is,
-- for keys with their environment; newest is -created_at, so that one order serves terms and, within them, the newest first.
create table search_terms (
  workspace_id {id} not null references workspaces (id),
  kind {id} not null,
  term {id} not null,
  newest {int} not null,
  id {id} not null,
  primary key (workspace_id, kind, term, newest, id)
) {rowless};

-- How far search_terms has come. Of a project: its keys up to this policy version and id. Of a workspace: its tenants up to
-- this time of creation and id.
create table search_progress (
  id {id} not null primary key,
  version {int} not null,
  last_id {id} not null
) {rowless};
