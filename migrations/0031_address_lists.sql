-- The networks that keys may be used from, as JSON lists: a key without its own (null) has those of its tenant. ip_mode belongs to
-- the list: enforce refuses other addresses, report only notes them.
alter table api_keys add column allowed_cidrs text;
alter table api_keys add column ip_mode {id} not null default 'enforce';
alter table tenants add column allowed_cidrs text not null default '[]';
alter table tenants add column ip_mode {id} not null default 'enforce';

-- Requests from outside a key's networks, by UTC day and by the /24 or /48 that they came from. Sums of 1/sample_rate.
create table key_networks (
  key_id {id} not null,
  day {int} not null,
  network {id} not null,
  outcome {id} not null check (outcome in ('refused', 'would_refuse')),
  workspace_id {id} not null references workspaces (id),
  requests {real} not null,
  first_seen_at {int} not null,
  last_seen_at {int} not null,
  primary key (key_id, day, network, outcome)
) {rowless};
create index key_networks_day on key_networks (day);
