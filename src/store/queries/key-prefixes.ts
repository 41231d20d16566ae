// Key prefixes that workspaces have claimed. Not scoped to a workspace where it must not be: a prefix has one owner.
import type { Env } from "../../kernel/credentials.ts";
import { insertRow } from "../engine/rows.ts";
import { countRows, statement } from "../engine/statement.ts";

/** Fails on the unique index if another workspace has claimed it. */
export const claimPrefix = insertRow("key_prefixes", ["prefix", "workspace_id", "claimed_at", "created_env"]);

export const prefixOwner = statement<{ prefix: string }>()((db, p) =>
  db.selectFrom("key_prefixes").select("workspace_id").where("prefix", "=", p.prefix),
);

export const countPrefixes = statement<{ workspace_id: string; created_env: Env }>()((db, p) =>
  db
    .selectFrom("key_prefixes")
    .select(countRows)
    .where("workspace_id", "=", p.workspace_id)
    .where("created_env", "=", p.created_env),
);
