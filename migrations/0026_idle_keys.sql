-- Revoking idle keys: when a key was last enabled, when a project's rule last changed, on which days nodes reported requests, and
-- how many keys were revoked lately.
alter table api_keys add column enabled_at {int};
alter table projects add column idle_changed_at {int};

create table telemetry_days (
  project_id {id} not null,
  env {id} not null,
  day {int} not null,
  last_at {int} not null,
  sampled {int} not null,
  primary key (project_id, env, day)
) {rowless};

create table idle_revocations (
  project_id {id} not null,
  revoked_at {int} not null,
  keys {int} not null,
  primary key (project_id, revoked_at)
) {rowless};
