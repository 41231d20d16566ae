// Key prefixes that workspaces have claimed. Not scoped to a workspace where it must not be: a prefix has one owner.
import { insertRow } from "../engine/rows.ts";
import { statement } from "../engine/statement.ts";

/** Fails on the unique index if another workspace has claimed it. */
export const claimPrefix = insertRow("key_prefixes", ["prefix", "workspace_id", "claimed_at", "created_env"]);

export const prefixOwner = statement<{ prefix: string }>()((db, p) =>
  db.selectFrom("key_prefixes").select("workspace_id").where("prefix", "=", p.prefix),
);

export const claimedPrefixes = statement<{ workspace_id: string }>()((db, p) =>
  db.selectFrom("key_prefixes").select(["prefix", "created_env"]).where("workspace_id", "=", p.workspace_id),
);
