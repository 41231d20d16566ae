-- Replaced by one without the grants of the live environment, which a test principal may not list either.
drop index if exists audit_log_test;
