-- The person who minted a secret key: what they leave behind when they are removed. A job fills it from the audit log.
alter table secret_keys add column created_by {id};
create index secret_keys_creator on secret_keys (workspace_id, created_by) where created_by is not null;
