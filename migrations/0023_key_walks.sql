-- Keys by state and environment, so that keys of one environment are never between those of the other. They replace the
-- indexes without the environment.
drop index if exists api_keys_env;
drop index if exists api_keys_expiry;
drop index if exists api_keys_quarantined;
drop index if exists api_keys_disabled;
drop index if exists api_keys_revoked;
