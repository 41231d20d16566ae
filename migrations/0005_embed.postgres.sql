-- Origins that were registered before there was a table of them.
insert into embed_origins (origin, workspace_id)
select case
    when lower(value) like 'http://%:80' then left(lower(value), -3)
    when lower(value) like 'https://%:443' then left(lower(value), -4)
    else lower(value)
  end, workspaces.id
from workspaces, json_array_elements_text(workspaces.embed_origins::json)
on conflict do nothing;
