-- The last verification of each long audit chain: its first seq rows were verified, or a break was found. Signed with the key
-- of the checkpoints, so that a mark cannot be invented to hide what is before it.
create table audit_marks (
  workspace_id {id} not null primary key,
  seq {int} not null,
  hash {id} not null,
  frontier text not null,
  verified_at {int} not null,
  broken_seq {int},
  reason text,
  signature text not null
) {table};
