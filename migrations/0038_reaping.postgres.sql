create index concurrently sessions_expiry on sessions (expires_at);
create index concurrently login_failures_age on login_failures (failed_at);
create index concurrently outbox_settled on outbox (state, settled_at) where settled_at is not null;
create index concurrently telemetry_days_age on telemetry_days (day);
create index concurrently usage_seen_age on usage_seen (start);
