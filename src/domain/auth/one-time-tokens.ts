// One-time tokens, sent by mail: `krev_` verifies an address, `krpr_` sets a password. Issuing one ends older tokens of
// the same purpose.
import { fail } from "../../kernel/errors.ts";
import { parseCredential } from "../../kernel/credentials.ts";
import { DAY_MS, MINUTE_MS } from "../../kernel/durations.ts";
import { endTokens, insertToken, tokenByHash } from "../../store/queries/one-time-tokens.ts";
import type { Reader, Tx } from "../../store/engine/tx.ts";
import type { OneTimeTokenRow, TokenPurpose } from "../../store/schema/tables.ts";
import type { Ctx, Services } from "../core/context.ts";
import { warnOfAttempt } from "../core/security-log.ts";
import { mint } from "./new-credentials.ts";
import { sha256Hex } from "../../platform/crypto.ts";

const LIFE_MS: Record<TokenPurpose, number> = {
  email_verification: DAY_MS,
  password_reset: 30 * MINUTE_MS,
};

export type IssuedToken = { text: string; expires_at: number };

export async function issueToken(
  services: Services,
  tx: Tx,
  user_id: string,
  purpose: TokenPurpose,
): Promise<IssuedToken> {
  const now = services.clock.now();
  const { text, stored } = mint(purpose);
  const expires_at = now + LIFE_MS[purpose];
  await endTokens.run(tx, { user_id, purpose, now });
  await insertToken.run(tx, {
    token_hash: stored.lookup_hash,
    user_id,
    purpose,
    created_at: now,
    expires_at,
    ended_at: null,
  });
  return { text, expires_at };
}

/** The live token with this text. Unknown, used and expired tokens get the same failure. */
export async function liveToken(ctx: Ctx, on: Reader, text: string, purpose: TokenPurpose): Promise<OneTimeTokenRow> {
  if (parseCredential(text)?.kind !== purpose) throw fail("invalid_token");
  const row = await tokenByHash.first(on, { token_hash: sha256Hex(text), purpose });
  if (row?.ended_at) warnOfAttempt(ctx.services, "token reuse", { purpose, user_id: row.user_id }, ctx.from);
  if (!row || row.ended_at !== null || row.expires_at <= ctx.services.clock.now()) throw fail("invalid_token");
  return row;
}
