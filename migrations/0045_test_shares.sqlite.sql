create index secret_keys_successors on secret_keys (rotated_from) where rotated_from is not null;
