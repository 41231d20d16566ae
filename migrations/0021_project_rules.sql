-- The rules of a project for its keys (null: the defaults), and the scopes that it knows. And the holder of an API key as an
-- actor of the audit log.
alter table projects add column key_policy text {json:key_policy};
alter table projects add column scope_catalogue text not null default '[]' {json:scope_catalogue};
