-- What a secret key may do, as JSON lists. Null: everything that its role may, in every project.
alter table secret_keys add column permissions text;
alter table secret_keys add column project_ids text;
