-- What ended long ago is deleted in pieces, each found by an index.
create index quota_grants_ended on quota_grants ((case when remaining = 0 then coalesce(voided_at, created_at) else expires_at end))
where reference is null;
