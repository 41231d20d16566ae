// Password resets. A request gets the same response for every address. Using the link ends all sessions, verifies the
// address and re-enables a disabled login; it does not log the person in.
import { HOUR_MS } from "../../kernel/durations.ts";
import { normalizeEmail } from "../../kernel/emails.ts";
import { clearAllLoginFailures } from "../../store/queries/logins.ts";
import { endTokens } from "../../store/queries/one-time-tokens.ts";
import { revokeSessionsOf } from "../../store/queries/sessions.ts";
import { setPassword, userByEmailKey } from "../../store/queries/users.ts";
import type { Tx } from "../../store/engine/tx.ts";
import type { AnonymousActor } from "../core/actor.ts";
import type { Ctx } from "../core/context.ts";
import { unknownCaller } from "./password-queue.ts";
import { sourceOwner, throttleKey } from "../limits/throttles.ts";
import { verifyAddress } from "./email-verifications.ts";
import { emailVerified } from "./user-events.ts";
import type { Event } from "../core/events.ts";
import { passwordWasResetMail, resetMail } from "../mail/templates.ts";
import { mint } from "./new-credentials.ts";
import { mutate } from "../core/mutate.ts";
import { record } from "../core/record.ts";
import { issueToken, liveToken } from "./one-time-tokens.ts";
import { queueDecoyMail, queueMail } from "../mail/outbox.ts";
import { countRequestedMail, mailLocks } from "../mail/daily-limits.ts";
import { checkPasswordOf } from "./password-policy.ts";
import { liveUser } from "./users.ts";

const RESET_MAILS = { name: "reset_mail", limit: 3, windowMs: HOUR_MS };

export async function requestReset({ services, from }: Ctx<AnonymousActor>, email: string) {
  const response = { object: "password_reset" as const, accepted: true as const };
  const email_key = normalizeEmail(email);
  const owner = sourceOwner(from);
  if (services.throttles.tryTake(RESET_MAILS, throttleKey(services, email_key), owner)) return response;
  const work = async (tx: Tx): Promise<void> => {
    if (!(await countRequestedMail(services, tx, "reset", email_key))) return;
    const user = await userByEmailKey.first(tx, { email_key });
    if (!user) return queueDecoyMail(services, tx, email, resetMail(services, mint("password_reset").text));
    const token = await issueToken(services, tx, user.id, "password_reset");
    await queueMail(services, tx, user.email, resetMail(services, token.text), { until: token.expires_at });
  };
  await record(services, work, { owner, locks: mailLocks(services, email_key) });
  services.mail.wake();
  services.log.info("password reset requested", { ...from });
  return response;
}

type ResetConsume = { token: string; password: string };

export async function consumeReset(ctx: Ctx<AnonymousActor>, input: ResetConsume) {
  const { services, from } = ctx;
  const { user_id } = await liveToken(ctx, services.store.read, input.token, "password_reset");
  const user = await liveUser(services.store.read, user_id);
  const { email, email_key } = user;
  await checkPasswordOf(services, input.password, user);
  const password_phc = await services.passwords.hash(unknownCaller(ctx), input.password);
  const asUser: Ctx = { services, actor: { kind: "user", user_id }, from };
  await mutate(asUser, { workspace_id: null }, async (tx) => {
    await liveToken(ctx, tx, input.token, "password_reset");
    const now = services.clock.now();
    await endTokens.run(tx, { user_id, purpose: "password_reset", now });
    await setPassword.run(tx, { id: user_id, password_phc, updated_at: now });
    const verified = await verifyAddress(tx, user_id, now);
    const revoked_sessions = await revokeSessionsOf.run(tx, { user_id, except: "", now });
    await clearAllLoginFailures.run(tx, { address_key: throttleKey(services, email_key) });
    await queueMail(services, tx, email, passwordWasResetMail(services));
    const reset: Event = { action: "user.password_reset", target_id: user_id, payload: { revoked_sessions } };
    return { value: null, events: verified ? [reset, emailVerified(user_id)] : [reset] };
  });
  services.throttles.reset(throttleKey(services, email_key));
  services.mail.wake();
  services.log.info("password reset", { user_id, ...from });
  return { object: "password_reset" as const, consumed: true as const };
}
