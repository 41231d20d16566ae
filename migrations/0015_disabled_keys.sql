-- A disabled key works nowhere until it is enabled again.
alter table api_keys add column disabled_at {int};
alter table api_keys add column disabled_reason text;
