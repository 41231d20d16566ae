// Invitations. Each has two tokens: one in the API response, one in the email. A verified person can join with either;
// only the emailed one also verifies the address it was sent to, because only it proves control of the mailbox.
import { DAY_MS } from "../../kernel/durations.ts";
import { normalizeEmail } from "../../kernel/emails.ts";
import { fail } from "../../kernel/errors.ts";
import {
  countPendingInvites,
  insertInvite,
  inviteById,
  listInvites as listInviteRows,
  markInviteAccepted,
  pendingInviteFor,
} from "../../store/queries/invites.ts";
import { countMembers, insertMembership, memberByEmailKey, membershipOf } from "../../store/queries/memberships.ts";
import { deleteUnsentMail } from "../../store/queries/outbox.ts";
import type { Tx } from "../../store/engine/tx.ts";
import type { UserRow, WorkspaceInviteRow } from "../../store/schema/tables.ts";
import { workspaceById } from "../../store/queries/workspaces.ts";
import type { Role, SessionActor, Vendor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { verifyAddress } from "../auth/email-verifications.ts";
import { emailVerified } from "../auth/user-events.ts";
import type { Event } from "../core/events.ts";
import { inviteMail } from "../mail/templates.ts";
import { onHashConflict, mintInvite, retryOnHashCollision } from "../auth/new-credentials.ts";
import { personBehind } from "../keys/secret-keys.ts";
import { endInvite, liveInvite, type LiveInvite } from "./invite-tokens.ts";
import { MEMBERS_MAX, logNewOwner } from "./members.ts";
import { requireMayOwn } from "./ownership.ts";
import { endSetupLinks } from "./setup-tokens.ts";
import { mutate, unchanged } from "../core/mutate.ts";
import { GIVE_UP_MS, queueMail } from "../mail/outbox.ts";
import { countInviteMail, mailLocks } from "../mail/daily-limits.ts";
import { enterWorkspace } from "../auth/sessions.ts";
import { liveUser } from "../auth/users.ts";
import { listRecords, type ListQuery } from "../core/list.ts";
import { recordLimitReached } from "../core/record-limit.ts";
import { viewInvite } from "../core/views.ts";

const INVITE_MS = 7 * DAY_MS;
export const PENDING_INVITES_MAX = 500;

type NewInvite = { email: string; role: Role };

export async function createInvite(ctx: Ctx<Vendor>, input: NewInvite) {
  const { services, actor } = ctx;
  const { workspace_id } = actor;
  const email_key = normalizeEmail(input.email);
  // Read before the transaction, which locks its mail: it never changes.
  const account_id = (await workspaceById.first(services.store.read, { id: workspace_id }))?.created_by ?? workspace_id;
  const locks = mailLocks(services, email_key, account_id);
  const created = await retryOnHashCollision(() => {
    const returned = mintInvite(workspace_id);
    const mailed = mintInvite(workspace_id);
    const now = services.clock.now();
    const row: WorkspaceInviteRow = {
      id: services.newId(),
      workspace_id,
      email: input.email,
      email_key,
      role: input.role,
      invited_by: null,
      token_hash: returned.token_hash,
      mailed_token_hash: mailed.token_hash,
      created_at: now,
      expires_at: now + INVITE_MS,
      accepted_at: null,
      revoked_at: null,
    };
    return mutate(ctx, { workspace_id, locks, onConflict: onHashConflict }, async (tx) => {
      const workspace = await workspaceById.first(tx, { id: workspace_id });
      if (!workspace) throw fail("workspace_not_found");
      await checkInvitable(ctx, tx, row);
      row.invited_by = await personBehind(tx, actor);
      const next_at = await countInviteMail(services, tx, { account_id, email_key, until: now + GIVE_UP_MS });
      await insertInvite.run(tx, row);
      const message = inviteMail(services, workspace.name, row.role, mailed.text);
      await queueMail(services, tx, row.email, message, { id: row.id, until: row.expires_at, account_id, next_at });
      const payload = { email: row.email, role: row.role };
      return {
        value: { ...viewInvite(row), token: returned.text, token_shown_once: true as const },
        events: [{ action: "workspace_invite.created", target_id: row.id, payload }],
      };
    });
  });
  services.mail.wake();
  if (input.role === "owner")
    services.log.info("owner role offered", { workspace_id, invite_id: created.id, ...ctx.from });
  return created;
}

/** At most one pending invitation per address, and 500 per workspace. */
async function checkInvitable(ctx: Ctx<Vendor>, tx: Tx, row: WorkspaceInviteRow): Promise<void> {
  const { workspace_id, email_key, created_at: now } = row;
  if (await memberByEmailKey.first(tx, { workspace_id, email_key })) throw fail("already_member");
  if (await pendingInviteFor.first(tx, { workspace_id, email_key, now })) throw fail("already_invited");
  if ((await countPendingInvites.count(tx, { workspace_id, now })) >= PENDING_INVITES_MAX)
    throw recordLimitReached(ctx);
}

export function listInvites(ctx: Ctx<Vendor>, query: ListQuery) {
  return listRecords(ctx, query, { find: inviteById, rows: listInviteRows, viewer: () => viewInvite });
}

export function revokeInvite(ctx: Ctx<Vendor>, id: string) {
  const { workspace_id } = ctx.actor;
  return mutate(ctx, { workspace_id }, async (tx) => {
    const row = await inviteById.first(tx, { workspace_id, id });
    if (!row) throw fail("invite_not_found");
    if (row.accepted_at !== null) throw fail("invite_accepted");
    if (row.revoked_at !== null) return unchanged(viewInvite(row));
    const now = ctx.services.clock.now();
    return { value: viewInvite({ ...row, revoked_at: now }), events: [await endInvite(tx, row, now)] };
  });
}

export async function acceptInvite(ctx: Ctx<SessionActor>, token: string) {
  const { services, actor } = ctx;
  const { user_id } = actor;
  // Looked up before anything is locked: an invented token must not lock a workspace.
  const { workspace_id } = await liveInvite(ctx, services.store.read, token);
  const joined = await mutate(ctx, { workspace_id, deployment: true }, async (tx) => {
    const invite = await liveInvite(ctx, tx, token);
    const user = await liveUser(tx, user_id);
    const now = services.clock.now();
    const verified = await requireVerified(tx, user, invite, now);
    if (await membershipOf.first(tx, { workspace_id, user_id })) throw fail("already_member");
    if ((await countMembers.count(tx, { workspace_id })) >= MEMBERS_MAX) throw fail("quota_reached");
    const { role } = invite;
    // The invitation has just verified an address that was not.
    const member = { ...user, email_verified_at: user.email_verified_at ?? now };
    if (role === "owner") {
      await requireMayOwn(services, tx, member, workspace_id, "workspaces_reached");
      await endSetupLinks(services, tx);
    }
    await insertMembership.run(tx, { workspace_id, user_id, role, created_at: now, updated_at: now });
    await markInviteAccepted.run(tx, { workspace_id, id: invite.id, accepted_at: now });
    await deleteUnsentMail.run(tx, { id: invite.id });
    const active = actor.workspace_id === null;
    if (active) await enterWorkspace(tx, actor, workspace_id);
    const payload = { role, email: user.email, invited_to: invite.email };
    return {
      value: { object: "workspace_member" as const, workspace_id, user_id, role, active },
      // Joined first: a person who was removed earlier acts in this workspace only after joining again.
      events: [
        { action: "workspace_member.joined", target_id: user_id, payload },
        { action: "workspace_invite.accepted", target_id: invite.id, payload: { email: invite.email, role } },
        ...verified,
      ],
    };
  });
  if (joined.role === "owner") logNewOwner(ctx, workspace_id, user_id);
  return joined;
}

/** Requires a verified address; the emailed token verifies the one it was sent to. */
async function requireVerified(tx: Tx, user: UserRow, invite: LiveInvite, now: number): Promise<Event[]> {
  if (user.email_verified_at !== null) return [];
  if (!invite.mailed || invite.email_key !== user.email_key) throw fail("email_unverified");
  await verifyAddress(tx, user.id, now);
  return [emailVerified(user.id)];
}
