-- Which processes hold units of quotas and live. What a process holds counts as unspent until its row, or its report, expires.
create table quota_processes (
  process_id {id} primary key,
  expires_at {int} not null
) {rowless};
