// One-time tokens for email verification and password reset. Only their hashes are stored.
import { insertRow, rowBy } from "../engine/rows.ts";
import { deleteWhere } from "../engine/delete-piece.ts";
import { statement } from "../engine/statement.ts";
import type { TokenPurpose } from "../schema/tables.ts";

export const insertToken = insertRow("one_time_tokens", [
  "token_hash",
  "user_id",
  "purpose",
  "created_at",
  "expires_at",
  "ended_at",
]);

/** Includes ended tokens: their reuse is logged. */
export const tokenByHash = rowBy("one_time_tokens", ["token_hash", "purpose"]);

/** A live token of one purpose that was issued between two times. */
export const liveTokenOf = statement<{ user_id: string; purpose: TokenPurpose; from: number; to: number }>()((db, p) =>
  db
    .selectFrom("one_time_tokens")
    .select("created_at")
    .where("user_id", "=", p.user_id)
    .where("purpose", "=", p.purpose)
    .where("ended_at", "is", null)
    .where("created_at", ">", p.from)
    .where("created_at", "<", p.to),
);

/** Ends every live token of one purpose: used, or replaced by a newer one. */
export const endTokens = statement<{ user_id: string; purpose: TokenPurpose; now: number }>()((db, p) =>
  db
    .updateTable("one_time_tokens")
    .set({ ended_at: p.now })
    .where("user_id", "=", p.user_id)
    .where("purpose", "=", p.purpose)
    .where("ended_at", "is", null),
);

export const reapTokens = deleteWhere("one_time_tokens", ["token_hash"], "expires_at", "<");
