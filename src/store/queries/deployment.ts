// Named values of the deployment: the master key's fingerprint, the bootstrap token's hash, the audit origin …
import { statement } from "../engine/statement.ts";

export type Fact =
  | "master_key_fingerprint"
  | "bootstrap_token_hash"
  | "audit_origin_host"
  | "checkpoint_key_id"
  | "embed_keys_made"
  | "deployment_id"
  | "last_backup"
  | "backup_failure"
  | "last_restore_test"
  | "restore_test_failure"
  | "restore_pending"
  | "secret_key_makers"
  | "key_policy_run"
  | "presence"
  | "meter"
  | "settings"
  | "steady_lag"
  | "quick_check";

export const readFact = statement<{ name: Fact }>()((db, p) =>
  db.selectFrom("deployment").select("value").where("name", "=", p.name),
);

/** Sets the value unless it is set: several processes may start at once on one database. */
export const claimFact = statement<{ name: Fact; value: string }>()((db, p) =>
  db
    .insertInto("deployment")
    .values({ name: p.name, value: p.value })
    .onConflict((oc) => oc.column("name").doNothing()),
);

export const writeFact = statement<{ name: Fact; value: string }>()((db, p) =>
  db
    .insertInto("deployment")
    .values({ name: p.name, value: p.value })
    .onConflict((oc) => oc.column("name").doUpdateSet({ value: p.value })),
);

export const dropFact = statement<{ name: Fact }>()((db, p) => db.deleteFrom("deployment").where("name", "=", p.name));
