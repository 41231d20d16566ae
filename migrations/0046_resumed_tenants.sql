-- When a tenant was last resumed: its keys count as unused from then on, not from the time before it was suspended.
alter table tenants add column resumed_at {int};
