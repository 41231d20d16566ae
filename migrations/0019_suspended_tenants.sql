-- The keys of a suspended tenant work nowhere until it is resumed.
alter table tenants add column suspended_at {int};
alter table tenants add column suspended_reason text;
