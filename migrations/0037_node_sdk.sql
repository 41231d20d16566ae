-- Which library a node runs, as its calls name it (`name/version`), when it was first registered, and when it last reported a
-- request that it decided degraded.
alter table policy_nodes add column sdk text;
alter table policy_nodes add column first_seen_at {int};
alter table policy_nodes add column degraded_at {int};
create index policy_nodes_degraded on policy_nodes (degraded_at) where degraded_at is not null;
