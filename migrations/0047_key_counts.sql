-- Replaced by indexes with all that the counts of the overview compare, so that they read no key.
drop index if exists api_keys_expiry_env;
drop index if exists api_keys_quarantined_env;
