-- People: accounts, sessions, memberships, invitations, one-time tokens, and the mail that carries them.
-- Every token is looked up by its SHA-256; its text is in no table.

create table users (
  id {id} not null primary key,
  email text not null,
  email_key {id} not null,
  email_verified_at {int},
  name text,
  password_phc text not null,
  last_workspace_id {id} references workspaces (id),
  created_at {int} not null,
  updated_at {int} not null,
  last_login_at {int}
) {table};
-- email is kept as typed; email_key is its lower-case NFC form.
create unique index users_email_key on users (email_key);
create index users_list on users (created_at, id);

create table memberships (
  workspace_id {id} not null references workspaces (id),
  user_id {id} not null references users (id),
  role {id} not null check (role in ('owner', 'admin', 'member')),
  created_at {int} not null,
  updated_at {int} not null,
  primary key (workspace_id, user_id)
) {rowless};
create index memberships_user on memberships (user_id);

create table sessions (
  id {id} not null primary key,
  user_id {id} not null references users (id),
  lookup_hash {id} not null unique,
  display_prefix text not null,
  active_workspace_id {id} references workspaces (id),
  created_at {int} not null,
  last_seen_at {int} not null,
  expires_at {int} not null,
  absolute_expires_at {int} not null,
  revoked_at {int}
) {table};
create index sessions_user on sessions (user_id, created_at, id);
create index sessions_workspace on sessions (active_workspace_id);

-- Two hashes: the token the API answered with, and the mailed one, which alone proves the mailbox.
create table workspace_invites (
  id {id} not null primary key,
  workspace_id {id} not null references workspaces (id),
  email text not null,
  email_key {id} not null,
  role {id} not null check (role in ('owner', 'admin', 'member')),
  invited_by {id} references users (id),
  token_hash {id} not null unique,
  mailed_token_hash {id} not null unique,
  created_at {int} not null,
  expires_at {int} not null,
  accepted_at {int},
  revoked_at {int}
) {table};
create index workspace_invites_list on workspace_invites (workspace_id, created_at, id);
create index workspace_invites_email on workspace_invites (workspace_id, email_key);

-- ended_at: used, or cancelled by a newer one.
create table one_time_tokens (
  token_hash {id} not null primary key,
  user_id {id} not null references users (id),
  purpose {id} not null check (purpose in ('email_verification', 'password_reset')),
  created_at {int} not null,
  expires_at {int} not null,
  ended_at {int}
) {rowless};
create index one_time_tokens_user on one_time_tokens (user_id, purpose);
create index one_time_tokens_expiry on one_time_tokens (expires_at);

-- Consecutive failed log-ins. address_key is an HMAC, so an address without an account has a row like any other.
-- bucket is '' for everybody, or a network (as HMAC) that this account has logged in from.
create table login_failures (
  address_key {id} not null,
  bucket {id} not null,
  consecutive {int} not null,
  failed_at {int} not null,
  primary key (address_key, bucket)
) {rowless};

create table login_networks (
  address_key {id} not null,
  network_key {id} not null,
  succeeded_at {int} not null,
  primary key (address_key, network_key)
) {rowless};
create index login_networks_age on login_networks (succeeded_at);

-- sealed_message is null once the message has gone out.
create table outbox (
  id {id} not null primary key,
  kind {id} not null,
  recipient text not null,
  message_id text not null,
  sealed_message {bytes},
  state {id} not null check (state in ('queued', 'sent', 'dead')),
  attempts {int} not null default 0,
  created_at {int} not null,
  next_at {int} not null,
  give_up_at {int} not null,
  settled_at {int},
  last_error text
) {table};
create index outbox_due on outbox (next_at) where state = 'queued';
create index outbox_list on outbox (created_at, id);
