-- What test credentials use up is counted apart from live; rows from before count as live. And an index for the
-- successors of a secret key.
alter table key_prefixes add column created_env {id} not null default 'live';
alter table idle_revocations add column test_keys {int} not null default 0;
