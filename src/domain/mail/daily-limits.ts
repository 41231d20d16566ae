// Daily limits of mail, counted in the database: they survive a restart and hold for all processes together. An account
// that invites gets a refusal when its limit is reached. An address that gets too much is protected silently: otherwise
// a stranger could use up its limit, and by that refuse it to everyone else.
// Caution: counting reads first and inserts then, so a job that counts declares `mailLocks`. Otherwise n processes on
// one PostgreSQL that count at the same moment admit up to n times a limit.
import { DAY_MS, latestCredible } from "../../kernel/durations.ts";
import { fail, type Failure } from "../../kernel/errors.ts";
import { soleOwner } from "../../fairness/owners.ts";
import type { Tx } from "../../store/engine/tx.ts";
import { insertMailCount, latestSends, mailOfAccount, mailOfAccountTo } from "../../store/queries/mail-counts.ts";
import { countQueuedOf } from "../../store/queries/outbox.ts";
import { throttleKey } from "../limits/throttles.ts";
import type { Services } from "../core/context.ts";

const INVITES_TO_ONE_ADDRESS = 3;
const MAILS_OF_A_KIND = 10;
const QUEUED_MAX = 500;

/** What the job that counts a mail locks. `account_id`: whose invitation it is. */
export function mailLocks(services: Services, email_key: string, account_id?: string): string[] {
  const names = [throttleKey(services, email_key), ...(account_id === undefined ? [] : [account_id])];
  return names.map((name) => `mail/${name}`);
}

type Counted = { n: number; first_at: number | null } | undefined;

/**
 * Counts an invitation's mail; throws when the account may not invite this address today. Returns when the mail may
 * leave: later than now when the address already gets as much as it should.
 */
export async function countInviteMail(
  services: Services,
  tx: Tx,
  mail: { account_id: string; email_key: string; until: number },
): Promise<number> {
  const { account_id } = mail;
  const now = services.clock.now();
  const { throttle, invite_mails_per_day: perDay } = services.settings;
  if ((await countQueuedOf.count(tx, { account_id })) >= QUEUED_MAX) throw queueFull(services, account_id);
  if (!throttle) return now;
  const address_key = throttleKey(services, mail.email_key);
  const counted = { account_id, since: now - DAY_MS, latest: latestCredible(now) };
  const toAddress = await mailOfAccountTo.first(tx, { ...counted, address_key });
  if ((toAddress?.n ?? 0) >= INVITES_TO_ONE_ADDRESS)
    throw spent(services, "invites_address", account_id, INVITES_TO_ONE_ADDRESS, toAddress);
  const inAll = await mailOfAccount.first(tx, counted);
  if ((inAll?.n ?? 0) >= perDay) throw spent(services, "invites", account_id, perDay, inAll);
  const sends_at = await nextSend(tx, "invite", address_key, now);
  const sent = sends_at < mail.until ? sends_at : null;
  if (sent !== now) services.shares.of("mail").countRefusal(soleOwner("address", address_key));
  const id = services.newId();
  await insertMailCount.run(tx, { id, kind: "invite", account_id, address_key, counted_at: now, sends_at: sent });
  return Math.min(sends_at, mail.until);
}

/** Counts a mail that a person requests for an address without proof of owning it. False: it must not be sent. */
export async function countRequestedMail(
  services: Services,
  tx: Tx,
  kind: "sign_up" | "reset",
  email_key: string,
): Promise<boolean> {
  const now = services.clock.now();
  if (!services.settings.throttle) return true;
  const address_key = throttleKey(services, email_key);
  const allowed = (await nextSend(tx, kind, address_key, now)) === now;
  if (!allowed) services.shares.of("mail").countRefusal(soleOwner("address", address_key));
  const row = { id: services.newId(), kind, account_id: null, address_key, counted_at: now };
  if (allowed) await insertMailCount.run(tx, { ...row, sends_at: now });
  return allowed;
}

/** Now, or when the oldest of the newest ten is a day old: so no day has more than ten. */
async function nextSend(tx: Tx, kind: string, address_key: string, now: number): Promise<number> {
  const latest = latestCredible(now);
  const newest = await latestSends.all(tx, { kind, address_key, latest, limit: MAILS_OF_A_KIND });
  const oldest = newest.length < MAILS_OF_A_KIND ? null : (newest.at(-1)?.sends_at ?? null);
  return oldest === null ? now : Math.max(now, oldest + DAY_MS);
}

/** Momentary, unlike the limits of a day: the queue empties as mail is delivered. */
function queueFull(services: Services, account_id: string): Failure {
  services.shares.of("mail").countRefusal(soleOwner("account", account_id));
  return fail("mail_queue_full");
}

function spent(services: Services, name: string, account_id: string, limit: number, counted?: Counted): Failure {
  services.shares.of("mail").countRefusal(soleOwner("account", account_id));
  const window = { start: counted?.first_at ?? services.clock.now(), used: limit };
  const refusal = services.throttles.refusal({ name, limit, windowMs: DAY_MS }, window, "invite_mails_spent");
  refusal.extra.details = [{ path: "email", message: "cannot be invited again today" }];
  return refusal;
}
