// Finds an invitation by one of its two tokens, and revokes one.
import { parseInviteToken } from "../../kernel/credentials.ts";
import { fail } from "../../kernel/errors.ts";
import { sha256Hex } from "../../platform/crypto.ts";
import type { Reader, Tx } from "../../store/engine/tx.ts";
import { inviteByHash, markInviteRevoked } from "../../store/queries/invites.ts";
import { deleteUnsentMail } from "../../store/queries/outbox.ts";
import type { WorkspaceInviteRow } from "../../store/schema/tables.ts";
import type { Ctx } from "../core/context.ts";
import type { Event } from "../core/events.ts";
import { warnOfAttempt } from "../core/security-log.ts";

/** `mailed`: the token is the one that was mailed, which proves control of the mailbox. */
export type LiveInvite = WorkspaceInviteRow & { mailed: boolean };

/** The live invitation with this token. Accepted, revoked, expired and unknown ones get the same failure. */
export async function liveInvite(ctx: Ctx, on: Reader, token: string): Promise<LiveInvite> {
  const parsed = parseInviteToken(token);
  if (!parsed) throw fail("invalid_token");
  const token_hash = sha256Hex(token);
  const row = await inviteByHash.first(on, { workspace_id: parsed.workspace_id, token_hash });
  if (row && (row.accepted_at ?? row.revoked_at) !== null) {
    warnOfAttempt(ctx.services, "token reuse", { purpose: "workspace_invite", invite_id: row.id }, ctx.from);
    throw fail("invalid_token");
  }
  if (!row || row.expires_at <= ctx.services.clock.now()) throw fail("invalid_token");
  return { ...row, mailed: row.mailed_token_hash === token_hash };
}

/** Revokes it, and deletes its mail if that is not sent yet. Returns the event to record. */
export async function endInvite(tx: Tx, row: WorkspaceInviteRow, now: number): Promise<Event> {
  const { workspace_id, id, email, role } = row;
  await markInviteRevoked.run(tx, { workspace_id, id, revoked_at: now });
  await deleteUnsentMail.run(tx, { id });
  return { action: "workspace_invite.revoked", target_id: id, payload: { email, role } };
}
