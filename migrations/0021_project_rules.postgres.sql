-- Not validated: that would read every row, and all of them satisfied the narrower constraint.
alter table audit_log drop constraint audit_log_actor_type_check;
alter table audit_log add constraint audit_log_actor_type_check
check (actor_type in ('user', 'secret_key', 'embed_token', 'bootstrap', 'scanner', 'system', 'api_key')) not valid;
