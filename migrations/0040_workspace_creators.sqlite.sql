create index workspaces_creator on workspaces (created_by) where created_by is not null;
