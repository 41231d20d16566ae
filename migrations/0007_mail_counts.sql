-- Quotas of mail. A workspace's account is the person who created it, or itself where that is not known.
alter table workspaces add column created_by {id};

-- Whose message it is: accounts take turns. Null for a message that a person asked for at their own address.
alter table outbox add column account_id {id};

-- One row per message that counts against a daily quota. address_key is an HMAC of the recipient. sends_at is when it may
-- leave; null where that is never.
create table mail_counts (
  id {id} not null primary key,
  kind {id} not null,
  account_id {id},
  address_key {id} not null,
  counted_at {int} not null,
  sends_at {int}
) {rowless};
create index mail_counts_account on mail_counts (account_id, counted_at);
create index mail_counts_address on mail_counts (address_key, kind, sends_at);
create index mail_counts_age on mail_counts (counted_at);
