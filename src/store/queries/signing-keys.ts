// Signing keys. The private key is sealed with the master key, bound to its row, and wiped when the key is removed; the
// row remains as history.
import { insertRow, rowBy, updateRow } from "../engine/rows.ts";
import { statement, type Builder, type Params } from "../engine/statement.ts";

export const insertSigningKey = insertRow("signing_keys", [
  "id",
  "purpose",
  "kid",
  "public_key",
  "sealed_private_key",
  "created_at",
  "published_at",
  "active_from",
  "retired_at",
  "removed_at",
]);

export const signingKeyById = rowBy("signing_keys", ["id"]);

/** Keys for embed tokens that still have their private key, oldest first. */
export const usableSigningKeys = statement<Record<string, never>>()((db) =>
  db
    .selectFrom("signing_keys")
    .selectAll()
    .where("purpose", "=", "embed")
    .where("sealed_private_key", "is not", null)
    .orderBy("created_at")
    .orderBy("id"),
);

export const signingKeyHistory = statement<Record<string, never>>()((db) =>
  db.selectFrom("signing_keys").selectAll().where("purpose", "=", "embed").orderBy("created_at").orderBy("id"),
);

const selectEmbedKey = (db: Builder, p: Params<{ kid: string }>) =>
  db.selectFrom("signing_keys").selectAll().where("purpose", "=", "embed").where("kid", "=", p.kid);

export const embedKeyByKid = statement<{ kid: string }>()(selectEmbedKey);

/**
 * For a transaction that acts for a token of this key: PostgreSQL locks the row, so the key is withdrawn before or
 * after.
 */
export const embedKeyInUse = statement<{ kid: string }>()((db, p, dialect) =>
  dialect === "postgres" ? selectEmbedKey(db, p).forShare() : selectEmbedKey(db, p),
);

/** Updates the lifecycle times. `wipeSigningKey` deletes the private key of a removed one. */
export const updateSigningKeyTimes = updateRow("signing_keys", ["id"], ["active_from", "retired_at", "removed_at"]);

export const wipeSigningKey = statement<{ id: string }>()((db, p) =>
  db.updateTable("signing_keys").set({ sealed_private_key: null }).where("id", "=", p.id),
);

export const wipeRemovedSigningKeys = statement<{ now: number }>()((db, p) =>
  db
    .updateTable("signing_keys")
    .set({ sealed_private_key: null })
    .where("purpose", "=", "embed")
    .where("removed_at", "<=", p.now)
    .where("sealed_private_key", "is not", null),
);
