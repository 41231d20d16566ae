// Accounts of people: sign-up, name, password. A sign-up gets the same response for every address, and one message is
// sent either way: only the mailbox shows whether the address had an account.
import { soleOwner } from "../../fairness/owners.ts";
import { HOUR_MS } from "../../kernel/durations.ts";
import { normalizeEmail } from "../../kernel/emails.ts";
import { fail } from "../../kernel/errors.ts";
import { membershipsOfUser } from "../../store/queries/memberships.ts";
import { endTokens } from "../../store/queries/one-time-tokens.ts";
import { revokeSessionsOf } from "../../store/queries/sessions.ts";
import type { Reader, Tx } from "../../store/engine/tx.ts";
import type { UserRow } from "../../store/schema/tables.ts";
import { insertUser, renameUser, setPassword, userByEmailKey, userById } from "../../store/queries/users.ts";
import { workspaceById } from "../../store/queries/workspaces.ts";
import type { AnonymousActor, SessionActor } from "../core/actor.ts";
import type { Ctx, Services } from "../core/context.ts";
import { unknownCaller } from "./password-queue.ts";
import { sourceOwner, throttleKey } from "../limits/throttles.ts";
import {
  existingAccountMail,
  passwordChangedMail,
  unfinishedAccountMail,
  verificationMail,
} from "../mail/templates.ts";
import { emailVerified, userCreated } from "./user-events.ts";
import { liveInvite, type LiveInvite } from "../workspaces/invite-tokens.ts";
import { checkPasswordThrottled } from "./login-throttle.ts";
import { mutate, unchanged } from "../core/mutate.ts";
import { record } from "../core/record.ts";
import { issueToken } from "./one-time-tokens.ts";
import { queueMail } from "../mail/outbox.ts";
import { countRequestedMail, mailLocks } from "../mail/daily-limits.ts";
import { checkNewPassword, checkPasswordOf } from "./password-policy.ts";
import { viewUser } from "../core/views.ts";

/** A rename is a row of the deployment's audit log, which is kept forever. */
const RENAMES = { name: "renames", limit: 30, windowMs: HOUR_MS };
const SIGN_UP_MAILS = { name: "signup_mail", limit: 3, windowMs: HOUR_MS };

export async function liveUser(on: Reader, id: string): Promise<UserRow> {
  const row = await userById.first(on, { id });
  if (!row) throw fail("invalid_session");
  return row;
}

type SignUp = {
  email: string;
  password: string;
  name?: string | undefined;
  invite_token?: string | undefined;
};

/** The invitation, if one is given. Throws if sign-up needs one, without a look at the address. */
async function admitSignUp(
  ctx: Ctx,
  on: Reader,
  { invite_token }: SignUp,
  email_key: string,
): Promise<LiveInvite | undefined> {
  const { sign_up } = ctx.services.settings;
  if (sign_up === "closed") throw fail("sign_up_closed");
  if (sign_up === "invite" && !invite_token) throw fail("sign_up_by_invitation");
  if (!invite_token) return undefined;
  const invite = await liveInvite(ctx, on, invite_token);
  if (invite.email_key !== email_key) throw fail("invalid_token");
  return invite;
}

export async function signUp(ctx: Ctx<AnonymousActor>, input: SignUp) {
  const { services } = ctx;
  const email_key = normalizeEmail(input.email);
  const { read } = services.store;
  const invited = await admitSignUp(ctx, read, input, email_key);
  const workspace = invited && (await workspaceById.first(read, { id: invited.workspace_id }));
  const words = workspace ? [workspace.name, workspace.slug] : [];
  checkNewPassword(services, input.password, { email: input.email, words });
  // Hashed even when not needed: the response time must not reveal whether the account exists.
  const password_phc = await services.passwords.hash(unknownCaller(ctx), input.password);
  // Hashing may have taken long. Judged for known addresses too, or a refusal would reveal that there is no account.
  const invite = await admitSignUp(ctx, read, input, email_key);
  const owner = sourceOwner(ctx.from);
  const counting = { owner, locks: mailLocks(services, email_key) };
  const mailed =
    !services.throttles.tryTake(SIGN_UP_MAILS, throttleKey(services, email_key), owner) &&
    (await record(services, (tx) => countRequestedMail(services, tx, "sign_up", email_key), counting));
  const known = await userByEmailKey.first(read, { email_key });
  const created = !known && (await createUser(ctx, { ...input, email_key, password_phc }, { invite, mailed }));
  if (!created && mailed) await mailAccountOwner(ctx, email_key);
  services.mail.wake();
  return { object: "signup" as const, email: input.email, accepted: true as const };
}

class AddressTaken extends Error {}

function onAddressConflict(target: string): undefined {
  if (target.includes("email_key")) throw new AddressTaken();
  return undefined;
}

export function newUser(
  services: Services,
  input: Pick<UserRow, "email" | "email_key" | "password_phc"> & { name?: string | undefined },
  verified: boolean,
): UserRow {
  const now = services.clock.now();
  return {
    id: services.newId(),
    email: input.email,
    email_key: input.email_key,
    email_verified_at: verified ? now : null,
    name: input.name ?? null,
    password_phc: input.password_phc,
    last_workspace_id: null,
    created_at: now,
    updated_at: now,
    last_login_at: null,
  };
}

/** False when another request took the address in the meantime. */
async function createUser(
  { services, from }: Ctx,
  input: SignUp & Pick<UserRow, "email_key" | "password_phc">,
  { invite, mailed }: { invite: LiveInvite | undefined; mailed: boolean },
): Promise<boolean> {
  const verified = invite?.mailed ?? false; // its token proves control of the mailbox
  const row = newUser(services, input, verified);
  const ctx: Ctx = { services, actor: { kind: "user", user_id: row.id }, from };
  try {
    // The lock of the workspace, under which its invitations end.
    const scope = { workspace_id: invite?.workspace_id ?? null, deployment: true, onConflict: onAddressConflict };
    return await mutate(ctx, scope, async (tx) => {
      await admitSignUp(ctx, tx, input, input.email_key);
      await insertUser.run(tx, row);
      if (mailed && !verified) {
        const token = await issueToken(services, tx, row.id, "email_verification");
        await queueMail(services, tx, row.email, verificationMail(services, token.text), { until: token.expires_at });
      }
      return { value: true, events: [userCreated(row.id), ...(verified ? [emailVerified(row.id)] : [])] };
    });
  } catch (error) {
    if (error instanceof AddressTaken) return false;
    throw error;
  }
}

/**
 * The message for an address that already has an account. An unverified one gets a reset link: its use ends the
 * password of a stranger who signed up with the address first.
 */
async function mailAccountOwner({ services, from }: Ctx, email_key: string): Promise<void> {
  const work = async (tx: Tx): Promise<void> => {
    const user = await userByEmailKey.first(tx, { email_key });
    if (!user) return;
    if (user.email_verified_at !== null) {
      await queueMail(services, tx, user.email, existingAccountMail(services));
      return;
    }
    const token = await issueToken(services, tx, user.id, "password_reset");
    await queueMail(services, tx, user.email, unfinishedAccountMail(services, token.text), { until: token.expires_at });
  };
  await record(services, work, { owner: sourceOwner(from) });
}

export async function showMe({ services, actor }: Ctx<SessionActor>) {
  const { read } = services.store;
  const { id, email, email_verified_at } = await liveUser(read, actor.user_id);
  return {
    object: "me" as const,
    user: { id, email, email_verified: email_verified_at !== null },
    active_workspace_id: actor.workspace_id,
    memberships: await membershipsOfUser.all(read, { user_id: id }),
  };
}

export function renameMe(ctx: Ctx<SessionActor>, name: string | null) {
  const { services, actor } = ctx;
  services.throttles.take(RENAMES, actor.user_id, soleOwner("person", actor.user_id));
  return mutate(ctx, { workspace_id: null }, async (tx) => {
    const row = await liveUser(tx, actor.user_id);
    if (row.name === name) return unchanged(viewUser(row));
    const now = services.clock.now();
    await renameUser.run(tx, { id: row.id, name, updated_at: now });
    // A name in the audit chain could never be erased, so only the fact of the change is recorded.
    const payload = { name: { changed: true } };
    return {
      value: viewUser({ ...row, name }),
      events: [{ action: "user.updated", target_id: row.id, payload }],
    };
  });
}

type PasswordChange = { current_password: string; password: string };

/** Requires the current password; ends all other sessions of the person. */
export async function changePassword(ctx: Ctx<SessionActor>, input: PasswordChange) {
  const { services, actor, from } = ctx;
  const user = await liveUser(services.store.read, actor.user_id);
  const { email_key, password_phc: phc } = user;
  const subject = { email_key, phc, password: input.current_password, from };
  // First, because it is cheap: a request that cannot succeed costs no hash and counts as no failed login.
  await checkPasswordOf(services, input.password, user);
  const { caller } = await checkPasswordThrottled(services, subject, "wrong_current_password");
  const password_phc = await services.passwords.hash(caller, input.password);
  await mutate(ctx, { workspace_id: null }, async (tx) => {
    const current = await liveUser(tx, user.id);
    if (current.password_phc !== phc) throw fail("wrong_current_password");
    const now = services.clock.now();
    await setPassword.run(tx, { id: user.id, password_phc, updated_at: now });
    await endTokens.run(tx, { user_id: user.id, purpose: "password_reset", now });
    const revoked_sessions = await revokeSessionsOf.run(tx, { user_id: user.id, except: actor.id, now });
    // Not to an unverified address: the account may have been made by a stranger to its owner.
    if (current.email_verified_at !== null) await queueMail(services, tx, user.email, passwordChangedMail(services));
    return {
      value: null,
      events: [{ action: "user.password_changed", target_id: user.id, payload: { revoked_sessions } }],
    };
  });
  services.mail.wake();
  services.log.info("password changed", { user_id: user.id, ...from });
  return { object: "password" as const, changed: true as const };
}
