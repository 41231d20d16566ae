// Secret keys, the vendor's own credentials. Authenticated by hash only.
import { sql } from "kysely";
import type { Env } from "../../kernel/credentials.ts";
import { isIn, isNamed } from "./id-lists.ts";
import { pageAfter, type PageKey } from "./page.ts";
import { insertRow, rowBy, updateRow } from "../engine/rows.ts";
import { changeRows, countRows, selectRows, statement } from "../engine/statement.ts";
import type { Reader, Tx } from "../engine/tx.ts";
import type { SecretKeyRow } from "../schema/tables.ts";
import { isUnexpired } from "./keys.ts";

export const insertSecretKey = insertRow("secret_keys", [
  "id",
  "workspace_id",
  "env",
  "lookup_hash",
  "display_prefix",
  "name",
  "meta",
  "owner_scope",
  "expires_at",
  "requested_expires_at",
  "revoked_at",
  "revoked_reason",
  "quarantined_at",
  "quarantine_reason",
  "rotated_from",
  "created_at",
  "last_used_at",
  "created_by",
  "permissions",
  "project_ids",
]);

export const secretKeyByHash = statement<{ lookup_hash: string }>()((db, p) =>
  db
    .selectFrom("secret_keys")
    .select([
      "id",
      "workspace_id",
      "env",
      "owner_scope",
      "expires_at",
      "revoked_at",
      "last_used_at",
      "permissions",
      "project_ids",
    ])
    .select((eb) =>
      eb
        .selectFrom("workspaces")
        .select("created_by")
        .whereRef("workspaces.id", "=", "secret_keys.workspace_id")
        .as("account_id"),
    )
    .where("lookup_hash", "=", p.lookup_hash),
);

export const secretKeyById = rowBy("secret_keys", ["id", "workspace_id"]);

/** The ids among these whose keys work. Of any workspace: they come from authenticated requests. */
export async function workingSecretKeys(on: Reader, ids: readonly string[], now: number): Promise<Set<string>> {
  const rows = await selectRows(on, (db, dialect) =>
    db
      .selectFrom("secret_keys")
      .select("id")
      .where(isIn("secret_keys.id", ids, dialect))
      .where("revoked_at", "is", null)
      .where(isUnexpired("expires_at", now)),
  );
  return new Set(rows.map(({ id }) => id));
}

/** Keys that work. Two ranges of an index, so that expired keys cost nothing however many there are. */
export const countSecretKeys = statement<{ workspace_id: string; env: Env; now: number }>()((db, p) => {
  const keys = db
    .selectFrom("secret_keys")
    .select("id")
    .where("workspace_id", "=", p.workspace_id)
    .where("env", "=", p.env)
    .where("revoked_at", "is", null);
  const working = keys.where("expires_at", "is", null).unionAll(keys.where("expires_at", ">", p.now));
  return db.selectFrom(working.as("working")).select(countRows);
});

/** Keys that work or have expired. */
export const countUnrevokedKeys = statement<{ workspace_id: string; env: Env }>()((db, p) =>
  db
    .selectFrom("secret_keys")
    .select(countRows)
    .where("workspace_id", "=", p.workspace_id)
    .where("env", "=", p.env)
    .where("revoked_at", "is", null),
);

/** A successor that works, or one that was rotated itself: its own successor may work. */
export const furtherSuccessor = statement<{ workspace_id: string; id: string; now: number }>()((db, p) =>
  db
    .selectFrom("secret_keys")
    .select("secret_keys.id")
    .where("rotated_from", "=", p.id)
    .where("workspace_id", "=", p.workspace_id)
    .where((eb) =>
      eb.or([
        eb.and([eb("revoked_at", "is", null), isUnexpired("expires_at", p.now)]),
        eb.exists(
          eb
            .selectFrom("secret_keys as next")
            .select("next.id")
            .whereRef("next.rotated_from", "=", "secret_keys.id")
            .where("next.workspace_id", "=", p.workspace_id),
        ),
      ]),
    )
    .limit(1),
);

type Successors = { workspace_id: string; id: string; now: number; depth: number; max: number };

/** Working keys that rotations made of this one, directly or through others. Oldest first. */
export const workingSuccessors = statement<Successors>()((db, p) =>
  db
    .withRecursive("line(id, depth)", (line) =>
      line
        .selectFrom("secret_keys")
        .select(["secret_keys.id", sql<number>`1`.as("depth")])
        .where("rotated_from", "=", p.id)
        .where("workspace_id", "=", p.workspace_id)
        .unionAll(
          line
            .selectFrom("line")
            .crossJoin("secret_keys") // SQLite keeps the order of a cross join
            .select(["secret_keys.id", sql<number>`line.depth + 1`.as("depth")])
            .whereRef("secret_keys.rotated_from", "=", "line.id")
            .where("secret_keys.workspace_id", "=", p.workspace_id)
            .where("line.depth", "<", p.depth),
        ),
    )
    .selectFrom("line")
    .crossJoin("secret_keys")
    .selectAll("secret_keys")
    .whereRef("secret_keys.id", "=", "line.id")
    .where("revoked_at", "is", null)
    .where(isUnexpired("expires_at", p.now))
    .orderBy("secret_keys.created_at")
    .orderBy("secret_keys.id")
    .limit(p.max),
);

type Minter = { workspace_id: string; user_id: string; now: number; limit: number };

/** Keys that a person minted and that still work, newest first. Without `meta`, which may be large. */
export const workingKeysOf = statement<Minter>()((db, p) =>
  db
    .selectFrom("secret_keys")
    .select(["id", "workspace_id", "env", "display_prefix", "owner_scope", "last_used_at"])
    .where("workspace_id", "=", p.workspace_id)
    .where("created_by", "=", p.user_id)
    .where("revoked_at", "is", null)
    .where(isUnexpired("expires_at", p.now))
    .orderBy("created_at", "desc")
    .orderBy("id", "desc")
    .limit(p.limit),
);

/** Fills in who minted a key, if that is not known yet. */
export const setKeyCreator = statement<{ workspace_id: string; id: string; user_id: string }>()((db, p) =>
  db
    .updateTable("secret_keys")
    .set({ created_by: p.user_id })
    .where("id", "=", p.id)
    .where("workspace_id", "=", p.workspace_id)
    .where("created_by", "is", null),
);

/** Like `setKeyCreator`, for a key that no person minted: it inherits the creator of another one. */
export const inheritKeyCreator = statement<{ workspace_id: string; id: string; from: string }>()((db, p) =>
  db
    .updateTable("secret_keys")
    .set((eb) => ({
      created_by: eb
        .selectFrom("secret_keys as before")
        .select("before.created_by")
        .where("before.id", "=", p.from)
        .where("before.workspace_id", "=", p.workspace_id),
    }))
    .where("id", "=", p.id)
    .where("workspace_id", "=", p.workspace_id)
    .where("created_by", "is", null),
);

export const shortenSecretKey = updateRow("secret_keys", ["id", "workspace_id"], ["expires_at"]);

export const revokeSecretKeyRow = updateRow("secret_keys", ["id", "workspace_id"], ["revoked_at", "revoked_reason"]);

type RevokedKeys = { workspace_id: string; ids: readonly string[]; now: number; reason: string };

export function revokeSecretKeyRows(tx: Tx, { workspace_id, ids, now, reason }: RevokedKeys): Promise<number> {
  return changeRows(tx, (db, dialect) =>
    db
      .updateTable("secret_keys")
      .set({ revoked_at: now, revoked_reason: reason })
      .where(isNamed("secret_keys", workspace_id, ids, dialect)),
  );
}

export const touchSecretKey = updateRow("secret_keys", ["id", "workspace_id"], ["last_used_at"]);

export function listSecretKeys(
  on: Reader,
  filter: { workspace_id: string; env: Env | null; isQuarantined: boolean; after: PageKey | null; limit: number },
): Promise<SecretKeyRow[]> {
  return selectRows(on, (db) => {
    let query = db.selectFrom("secret_keys").selectAll().where("workspace_id", "=", filter.workspace_id);
    if (filter.env) query = query.where("env", "=", filter.env);
    if (filter.isQuarantined) query = query.where("quarantined_at", "is not", null).where("revoked_at", "is", null);
    if (filter.after) query = query.where(pageAfter<"secret_keys">(filter.after));
    return query
      .orderBy("created_at", "desc")
      .orderBy("id", "desc")
      .limit(filter.limit + 1);
  });
}
