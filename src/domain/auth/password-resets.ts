// Resetting a forgotten password. Asking answers the same for every address; using the link ends all sessions, verifies
// the address, lifts a disabled log-in, and logs nobody in.
import { emailKey } from "../../kernel/emails.ts";
import { clearAllLoginFailures } from "../../store/queries/logins.ts";
import { endTokens } from "../../store/queries/one-time-tokens.ts";
import { revokeSessionsOf } from "../../store/queries/sessions.ts";
import { setPassword, userByEmailKey } from "../../store/queries/users.ts";
import type { Nobody } from "../core/actor.ts";
import { throttleKey, type Ctx } from "../core/context.ts";
import { emailVerified, verifyAddress } from "./email-verifications.ts";
import type { Event } from "../core/events.ts";
import { passwordWasResetLetter, resetLetter } from "../mail/templates.ts";
import { mint } from "./new-credentials.ts";
import { mutate, record } from "../core/mutate.ts";
import { issueToken, liveToken } from "./one-time-tokens.ts";
import { pretendMail, queueMail } from "../mail/outbox.ts";
import { checkNewPassword } from "./password-policy.ts";
import { liveUser } from "./users.ts";

const RESET_MAILS = { name: "reset_mail", limit: 3, windowMs: 3_600_000 };

export async function requestReset({ rack, from }: Ctx<Nobody>, email: string) {
  const answer = { object: "password_reset" as const, accepted: true as const };
  const email_key = emailKey(email);
  if (rack.throttles.tryTake(RESET_MAILS, throttleKey(rack, email_key))) return answer;
  await record(rack, async (tx) => {
    const user = await userByEmailKey.first(tx, { email_key });
    if (!user) return pretendMail(rack, tx, email, resetLetter(rack, mint("password_reset").text));
    const token = await issueToken(rack, tx, user.id, "password_reset");
    await queueMail(rack, tx, user.email, resetLetter(rack, token.text), token.expires_at);
  });
  rack.mail.wake();
  rack.log.info("password reset asked for", { ...from });
  return answer;
}

export type ResetConsume = { token: string; password: string };

export async function consumeReset(ctx: Ctx<Nobody>, want: ResetConsume) {
  const { rack, from } = ctx;
  const { user_id } = await liveToken(ctx, rack.store.read, want.token, "password_reset");
  const { email, email_key } = await liveUser(rack.store.read, user_id);
  checkNewPassword(rack, want.password, { email });
  const password_phc = await rack.passwords.hash(want.password);
  const asUser: Ctx = { rack, actor: { kind: "user", user_id }, from };
  await mutate(asUser, { workspace_id: null }, async (tx) => {
    await liveToken(ctx, tx, want.token, "password_reset");
    const now = rack.clock.now();
    await endTokens.run(tx, { user_id, purpose: "password_reset", now });
    await setPassword.run(tx, { id: user_id, password_phc, now });
    const verified = await verifyAddress(tx, user_id, now);
    const revoked_sessions = await revokeSessionsOf.run(tx, { user_id, except: "", now });
    await clearAllLoginFailures.run(tx, { address_key: throttleKey(rack, email_key) });
    await queueMail(rack, tx, email, passwordWasResetLetter(rack));
    const reset: Event = { action: "user.password_reset", target_id: user_id, payload: { revoked_sessions } };
    return { value: null, events: verified ? [reset, emailVerified(user_id)] : [reset] };
  });
  rack.throttles.forget(throttleKey(rack, email_key));
  rack.mail.wake();
  rack.log.info("password reset", { user_id, ...from });
  return { object: "password_reset" as const, consumed: true as const };
}
