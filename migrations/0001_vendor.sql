-- The vendor plane, the audit chain and the deployment's own facts.
-- One text for both dialects; the migrator fills in {id} {int} {bytes} {table} {rowless} {json:column}
-- (see src/store/migrate.ts). Times are integer milliseconds since 1970, JSON is canonical or verbatim text.

create table deployment (
  name text not null primary key,
  value text not null
) {table};

create table workspaces (
  id {id} not null primary key,
  name text not null,
  slug {id} not null unique,
  billing_email text,
  embed_origins text not null default '[]' {json:embed_origins},
  tenant_count {int} not null default 0,
  created_at {int} not null,
  updated_at {int} not null
) {table};

create table projects (
  id {id} not null primary key,
  workspace_id {id} not null references workspaces (id),
  name text not null,
  slug {id} not null,
  policy_version {int} not null default 1 check (policy_version >= 1),
  min_delta_version {int} not null default 1,
  default_rate_limits text not null default '[]' {json:default_rate_limits},
  created_at {int} not null,
  updated_at {int} not null,
  deleted_at {int}
) {table};
create unique index projects_slug on projects (workspace_id, slug) where deleted_at is null;
create index projects_list on projects (workspace_id, created_at, id);

create table tenants (
  id {id} not null primary key,
  workspace_id {id} not null references workspaces (id),
  external_id {id} not null,
  name text,
  meta text not null default '{}' {json:meta},
  embed_epoch {int} not null default 1,
  created_at {int} not null,
  updated_at {int} not null,
  deleted_at {int}
) {table};
create unique index tenants_external_id on tenants (workspace_id, external_id) where deleted_at is null;
create index tenants_list on tenants (workspace_id, created_at, id);

-- policy_version is the project's version at which this key last changed: the delta feed is a range of it.
create table api_keys (
  id {id} not null primary key,
  workspace_id {id} not null references workspaces (id),
  project_id {id} not null references projects (id),
  tenant_id {id} not null references tenants (id),
  env {id} not null check (env in ('live', 'test')),
  lookup_hash {id} not null unique,
  display_prefix text not null,
  name text,
  scopes text not null default '[]' {json:scopes},
  meta text not null default '{}' {json:meta},
  rate_limits text {json:rate_limits},
  expires_at {int},
  requested_expires_at {int},
  revoked_at {int},
  revoked_reason text,
  revoked_cause text check (revoked_cause in ('revoked', 'tenant_deleted', 'project_deleted')),
  quarantined_at {int},
  quarantine_reason text,
  rotated_from {id},
  created_at {int} not null,
  last_used_at {int},
  policy_version {int} not null
) {table};
create index api_keys_list on api_keys (workspace_id, created_at, id);
create index api_keys_tenant on api_keys (tenant_id, created_at, id);
create index api_keys_policy on api_keys (project_id, policy_version);

create table secret_keys (
  id {id} not null primary key,
  workspace_id {id} not null references workspaces (id),
  env {id} not null check (env in ('live', 'test')),
  lookup_hash {id} not null unique,
  display_prefix text not null,
  name text,
  meta text not null default '{}' {json:meta},
  owner_scope {int} not null check (owner_scope in (0, 1)),
  expires_at {int},
  requested_expires_at {int},
  revoked_at {int},
  revoked_reason text,
  quarantined_at {int},
  quarantine_reason text,
  rotated_from {id},
  created_at {int} not null,
  last_used_at {int}
) {table};
create index secret_keys_list on secret_keys (workspace_id, created_at, id);

-- One row a policy version, kept for seven days and ten thousand versions: a poller older than that gets a snapshot.
create table policy_versions (
  project_id {id} not null references projects (id),
  version {int} not null,
  changed_at {int} not null,
  primary key (project_id, version)
) {rowless};

-- The chain. Rows are never changed or deleted: triggers see to it.
create table audit_log (
  workspace_id {id} not null,
  seq {int} not null check (seq >= 1),
  id {id} not null unique,
  occurred_at {int} not null,
  actor_type text not null check (actor_type in ('user', 'secret_key', 'embed_token', 'bootstrap', 'scanner', 'system')),
  actor_id {id},
  action text not null,
  target_type text not null,
  target_id {id},
  payload text not null {json:payload},
  prev_hash {id} not null,
  hash {id} not null,
  primary key (workspace_id, seq),
  unique (workspace_id, prev_hash)
) {table};

create table audit_heads (
  workspace_id {id} not null primary key,
  seq {int} not null,
  hash {id} not null,
  occurred_at {int} not null
) {rowless};

-- Signed checkpoints; the newest row of a workspace also keeps the Merkle frontier, so that the next costs only the new rows.
create table audit_checkpoints (
  workspace_id {id} not null,
  seq {int} not null,
  note text not null,
  frontier text not null,
  created_at {int} not null,
  primary key (workspace_id, seq)
) {table};

create table signing_keys (
  id {id} not null primary key,
  purpose text not null check (purpose in ('checkpoint', 'embed')),
  kid {id} not null unique,
  public_key text not null,
  sealed_private_key {bytes},
  created_at {int} not null,
  published_at {int} not null,
  active_from {int},
  retired_at {int},
  removed_at {int}
) {table};

-- Answers kept for retried POSTs (Idempotency-Key), encrypted under the caller's own token.
create table kept_answers (
  key_hash {id} not null primary key,
  fingerprint {id} not null,
  status {int} not null,
  sealed_body {bytes} not null,
  created_at {int} not null,
  expires_at {int} not null
) {rowless};
create index kept_answers_expiry on kept_answers (expires_at);
