-- No row of the audit chain is ever changed or deleted.
create trigger audit_log_no_update before update on audit_log
begin
  select raise(abort, 'audit_log is append-only');
end;
create trigger audit_log_no_delete before delete on audit_log
begin
  select raise(abort, 'audit_log is append-only');
end;
