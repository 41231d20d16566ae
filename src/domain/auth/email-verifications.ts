// Email verification. Only a token from the mailbox verifies an address.
import { soleOwner } from "../../fairness/owners.ts";
import { endTokens, liveTokenOf } from "../../store/queries/one-time-tokens.ts";
import type { Tx } from "../../store/engine/tx.ts";
import type { UserRow } from "../../store/schema/tables.ts";
import { markVerified } from "../../store/queries/users.ts";
import type { AnonymousActor, SessionActor } from "../core/actor.ts";
import type { Ctx, Services } from "../core/context.ts";
import { verificationMail } from "../mail/templates.ts";
import { mutate } from "../core/mutate.ts";
import { record } from "../core/record.ts";
import { issueToken, liveToken } from "./one-time-tokens.ts";
import { queueMail } from "../mail/outbox.ts";
import { countRequestedMail, mailLocks } from "../mail/daily-limits.ts";
import { emailVerified } from "./user-events.ts";
import { liveUser } from "./users.ts";
import { HOUR_MS } from "../../kernel/durations.ts";

const VERIFICATION_MAILS = { name: "verification_mail", limit: 5, windowMs: HOUR_MS };

/** Sends another link. Responds the same, without sending, to a verified address or after five mails within an hour. */
export async function requestVerification({ services, actor }: Ctx<SessionActor>) {
  const response = { object: "email_verification" as const, accepted: true as const };
  await mailVerification(services, await liveUser(services.store.read, actor.user_id));
  return response;
}

/** Sends a link to an unverified address, within its limits, unless one was issued within `pauseMs`. */
export async function mailVerification(services: Services, user: UserRow, pauseMs = 0): Promise<void> {
  const owner = soleOwner("person", user.id);
  if (user.email_verified_at !== null || services.throttles.tryTake(VERIFICATION_MAILS, user.id, owner)) return;
  const work = async (tx: Tx): Promise<boolean> => {
    const now = services.clock.now();
    // Clocks of processes differ, but one that was far ahead must not suppress mails until then.
    const times = { from: now - pauseMs, to: now + pauseMs };
    if (await liveTokenOf.first(tx, { user_id: user.id, purpose: "email_verification", ...times })) return false;
    if (!(await countRequestedMail(services, tx, "sign_up", user.email_key))) return true;
    const token = await issueToken(services, tx, user.id, "email_verification");
    await queueMail(services, tx, user.email, verificationMail(services, token.text), { until: token.expires_at });
    return true;
  };
  const counts = await record(services, work, { owner, locks: mailLocks(services, user.email_key) });
  if (!counts) services.throttles.refund(VERIFICATION_MAILS, user.id);
  services.mail.wake();
}

export async function consumeVerification(ctx: Ctx<AnonymousActor>, token: string) {
  const { services, from } = ctx;
  const { user_id } = await liveToken(ctx, services.store.read, token, "email_verification");
  const asUser: Ctx = { services, actor: { kind: "user", user_id }, from };
  return mutate(asUser, { workspace_id: null }, async (tx) => {
    await liveToken(ctx, tx, token, "email_verification");
    const now = services.clock.now();
    await verifyAddress(tx, user_id, now);
    return {
      value: { object: "email_verification" as const, verified: true as const },
      events: [emailVerified(user_id)],
    };
  });
}

/** Marks the address verified and ends its verification tokens. Returns whether it was unverified before. */
export async function verifyAddress(tx: Tx, user_id: string, now: number): Promise<boolean> {
  await endTokens.run(tx, { user_id, purpose: "email_verification", now });
  return (await markVerified.run(tx, { id: user_id, now })) > 0;
}
