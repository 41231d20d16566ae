// Writes of secret scanning: quarantines, and notices to the owners of leaked test credentials.
import { updateRow, upsertRow } from "../engine/rows.ts";
import { statement } from "../engine/statement.ts";

/** Only the text of a leaked key is known, so these two lookups are not scoped to a workspace. */
export const leakedKey = statement<{ lookup_hash: string }>()((db, p) =>
  db.selectFrom("api_keys").select(["id", "workspace_id", "env"]).where("lookup_hash", "=", p.lookup_hash),
);

export const leakedSecretKey = statement<{ lookup_hash: string }>()((db, p) =>
  db.selectFrom("secret_keys").select(["id", "workspace_id", "env"]).where("lookup_hash", "=", p.lookup_hash),
);

export const quarantineKeyRow = updateRow(
  "api_keys",
  ["id", "workspace_id"],
  ["expires_at", "quarantined_at", "quarantine_reason", "policy_version"],
);

export const quarantineSecretKeyRow = updateRow(
  "secret_keys",
  ["id", "workspace_id"],
  ["expires_at", "quarantined_at", "quarantine_reason"],
);

/** Changes no row if the owners were notified before. */
export const insertLeakNotice = upsertRow("leak_notices", ["credential_id"], [], ["workspace_id", "noticed_at"]);
