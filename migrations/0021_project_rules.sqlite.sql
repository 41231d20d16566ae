-- Rebuilding the table would copy every row. SQLite documents this way for constraints, which do not affect how rows are stored.
pragma writable_schema = on;
update sqlite_schema
set sql = replace(sql, '''scanner'', ''system''))', '''scanner'', ''system'', ''api_key''))')
where type = 'table' and name = 'audit_log';
pragma writable_schema = reset;
