-- Capabilities of the policy feed: those that a project uses, as bits (1 cidr, 2 disabled, 4 formats), and those that a node has.
alter table projects add column features {int} not null default 0;
update projects set features = 2
where id in (select project_id from api_keys where disabled_at is not null and revoked_at is null);
alter table policy_nodes add column caps text not null default '';
alter table policy_nodes add column full_power {int} not null default 0;
