-- The environment of the credential that created a project or tenant: its quota is the one that the record counts in. Records
-- of earlier releases count as live.
alter table projects add column created_env {id} not null default 'live';
alter table tenants add column created_env {id} not null default 'live';
-- Tenants created by test credentials; tenant_count has the others.
alter table workspaces add column test_tenant_count {int} not null default 0;
-- Events of test credentials in the same minute; used has the others.
alter table ingest_budgets add column test_used {int} not null default 0;
