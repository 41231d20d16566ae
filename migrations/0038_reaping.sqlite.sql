create index sessions_expiry on sessions (expires_at);
create index login_failures_age on login_failures (failed_at);
create index outbox_settled on outbox (state, settled_at) where settled_at is not null;
create index telemetry_days_age on telemetry_days (day);
create index usage_seen_age on usage_seen (start);
