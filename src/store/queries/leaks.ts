// Writes of secret scanning: quarantines, and notices to the owners of leaked test credentials.
import { columns, statement } from "../engine/statement.ts";
import type { ApiKeyRow, LeakNoticeRow, SecretKeyRow } from "../schema/tables.ts";

/** Only the text of a leaked key is known, so these two lookups are not scoped to a workspace. */
export const leakedKey = statement<{ lookup_hash: string }>()((db, p) =>
  db.selectFrom("api_keys").select(["id", "workspace_id", "env"]).where("lookup_hash", "=", p.lookup_hash),
);

export const leakedSecretKey = statement<{ lookup_hash: string }>()((db, p) =>
  db.selectFrom("secret_keys").select(["id", "workspace_id", "env"]).where("lookup_hash", "=", p.lookup_hash),
);

type Quarantined = "id" | "workspace_id" | "expires_at" | "quarantined_at" | "quarantine_reason";

export const quarantineKeyRow = statement<Pick<ApiKeyRow, Quarantined | "policy_version">>()((db, p) =>
  db
    .updateTable("api_keys")
    .set(columns(p, ["expires_at", "quarantined_at", "quarantine_reason", "policy_version"]))
    .where("id", "=", p.id)
    .where("workspace_id", "=", p.workspace_id),
);

export const quarantineSecretKeyRow = statement<Pick<SecretKeyRow, Quarantined>>()((db, p) =>
  db
    .updateTable("secret_keys")
    .set(columns(p, ["expires_at", "quarantined_at", "quarantine_reason"]))
    .where("id", "=", p.id)
    .where("workspace_id", "=", p.workspace_id),
);

/** Changes no row if the owners were notified before. */
export const insertLeakNotice = statement<LeakNoticeRow>()((db, p) =>
  db
    .insertInto("leak_notices")
    .values(columns(p, ["credential_id", "workspace_id", "noticed_at"]))
    .onConflict((oc) => oc.column("credential_id").doNothing()),
);
