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

const embedKeys = (db: Builder) => db.selectFrom("signing_keys").selectAll().where("purpose", "=", "embed");

/** Keys for embed tokens, oldest first. */
export const signingKeyHistory = statement()((db) => embedKeys(db).orderBy("created_at").orderBy("id"));

/** The keys that still have their private key. */
export const usableSigningKeys = statement()((db) =>
  embedKeys(db).where("sealed_private_key", "is not", null).orderBy("created_at").orderBy("id"),
);

const selectEmbedKey = (db: Builder, p: Params<{ kid: string }>) => embedKeys(db).where("kid", "=", p.kid);

export const embedKeyByKid = statement<{ kid: string }>()(selectEmbedKey);

/**
 * For a transaction that acts for a token of this key: PostgreSQL locks the row, so the key is withdrawn before or
 * after.
 */
export const embedKeyInUse = statement<{ kid: string }>()((db, p, dialect) =>
  dialect === "postgres" ? selectEmbedKey(db, p).forShare() : selectEmbedKey(db, p),
);

export const updateSigningKeyTimes = updateRow("signing_keys", ["id"], ["active_from", "retired_at", "removed_at"]);

/** With null for its private key. */
export const removeSigningKey = updateRow("signing_keys", ["id"], ["retired_at", "removed_at", "sealed_private_key"]);

export const wipeRemovedSigningKeys = statement<{ now: number }>()((db, p) =>
  db
    .updateTable("signing_keys")
    .set({ sealed_private_key: null })
    .where("purpose", "=", "embed")
    .where("removed_at", "<=", p.now)
    .where("sealed_private_key", "is not", null),
);
