// Setup tokens, with which the first owner claims an instance. Only their hashes are stored.
import { insertRow, rowBy } from "../engine/rows.ts";
import { deleteWhere } from "../engine/delete-piece.ts";
import { statement } from "../engine/statement.ts";

export const insertSetupToken = insertRow("setup_tokens", ["token_hash", "created_at", "expires_at", "ended_at"]);

export const setupTokenByHash = rowBy("setup_tokens", ["token_hash"]);

/** Ends all live tokens but the newest `kept`. The table is small: expired rows are deleted. */
export const endSetupTokens = statement<{ now: number; kept: number }>()((db, p) =>
  db
    .updateTable("setup_tokens")
    .set({ ended_at: p.now })
    .where("ended_at", "is", null)
    .where((eb) =>
      eb(
        "token_hash",
        "not in",
        eb
          .selectFrom("setup_tokens")
          .select("token_hash")
          .where("ended_at", "is", null)
          .where("expires_at", ">", p.now)
          .orderBy("created_at", "desc")
          .orderBy("token_hash")
          .limit(p.kept),
      ),
    ),
);

/** An ended token is expired within the hour, so this removes ended ones too. */
export const reapSetupTokens = deleteWhere("setup_tokens", ["token_hash"], "expires_at", "<");
