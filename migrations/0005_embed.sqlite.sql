-- Origins that were registered before there was a table of them.
insert or ignore into embed_origins (origin, workspace_id)
select case
    when lower(value) like 'http://%:80' then substr(lower(value), 1, length(value) - 3)
    when lower(value) like 'https://%:443' then substr(lower(value), 1, length(value) - 4)
    else lower(value)
  end, workspaces.id
from workspaces, json_each(workspaces.embed_origins);
