// The outbox: a message is sealed and queued in the transaction that causes it, and sent after the commit. Delivery is
// at least once: after a crash between sending and recording it, the message is sent again with the same Message-ID.
import { randomInt } from "node:crypto";
import { DAY_MS, HOUR_MS, latestCredible, MINUTE_MS } from "../../kernel/durations.ts";
import { fail } from "../../kernel/errors.ts";
import { formatTimestamp, formatTimestampOrNull } from "../../kernel/timestamps.ts";
import { MailRefused, type Mail } from "./message.ts";
import {
  claimMail,
  countDeadMailSince,
  countMail,
  delayMail,
  deleteMail,
  dueMail,
  insertMail,
  listMail as listMailRows,
  mailById,
  markMailDead,
  markMailSent,
  reapMail,
  requeueMail,
} from "../../store/queries/outbox.ts";
import { reapMailCounts } from "../../store/queries/mail-counts.ts";
import { LIST_MAX } from "../../store/queries/page.ts";
import type { Tx } from "../../store/engine/tx.ts";
import type { OutboxRow, OutboxState } from "../../store/schema/tables.ts";
import type { Services } from "../core/context.ts";
import type { MailMessage } from "./templates.ts";
import { reap, record } from "../core/record.ts";
import { listOf } from "../core/list.ts";

export const GIVE_UP_MS = 72 * HOUR_MS;
const FIRST_RETRY_MS = 30_000;
const LEASE_MS = 2 * MINUTE_MS;
const AT_ONCE = 5;
const KEEP_SENT_MS = 7 * DAY_MS;
const KEEP_DEAD_MS = 30 * DAY_MS;
const ERROR_CHARS = 200;

export type MailOptions = {
  /** By default a new one; that of a record whose end makes the message pointless, so that it can be deleted. */
  id?: string;
  /** When its token expires: an expired link is not worth sending. */
  until?: number;
  /** The account that the message belongs to; by default the recipient's. */
  account_id?: string;
  /** Earliest time to send it. */
  next_at?: number;
};

export async function queueMail(
  services: Services,
  tx: Tx,
  to: string,
  message: MailMessage,
  options: MailOptions = {},
): Promise<string> {
  const now = services.clock.now();
  const id = options.id ?? services.newId();
  const { kind, subject, text } = message;
  const message_id = `<${id}@${new URL(services.publicUrl || "http://localhost").hostname}>`;
  await insertMail.run(tx, {
    id,
    kind,
    recipient: to,
    message_id,
    sealed_message: services.vault.seal("outbox", id, Buffer.from(JSON.stringify({ subject, text }))),
    state: "queued",
    attempts: 0,
    created_at: now,
    next_at: options.next_at ?? now,
    give_up_at: Math.min(options.until ?? Number.MAX_SAFE_INTEGER, now + GIVE_UP_MS),
    settled_at: null,
    last_error: null,
    account_id: options.account_id ?? null,
  });
  return id;
}

/** Takes as long as `queueMail` and queues nothing: an address without an account must not respond faster. */
export async function queueDecoyMail(services: Services, tx: Tx, to: string, message: MailMessage): Promise<void> {
  await deleteMail.run(tx, { id: await queueMail(services, tx, to, message) });
}

/** Sends all due messages. Safe to run in several processes at once. */
export async function deliverDue(services: Services): Promise<void> {
  for (let after = ""; ; ) {
    const rows = await dueMail.all(services.store.read, { now: services.clock.now(), after, limit: AT_ONCE });
    if (rows.length === 0 || services.shutdown.signal.aborted) return;
    after = rows.at(-1)?.sender ?? "";
    await Promise.all(rows.map((row) => deliverOne(services, row)));
  }
}

async function deliverOne(services: Services, row: OutboxRow): Promise<void> {
  const { id } = row;
  const now = services.clock.now();
  if (now >= row.give_up_at) return giveUp(services, row, row.last_error ?? "it could not be sent in time");
  const claimed = await record(services, (tx) => claimMail.run(tx, { id, now, until: now + LEASE_MS }));
  if (claimed === 0) return;
  try {
    await services.mail.transport.deliver(openMail(services, row));
  } catch (error) {
    const reason = oneLine((error as Error).message);
    if (error instanceof MailRefused) return giveUp(services, row, reason);
    return postpone(services, row, reason);
  }
  await record(services, (tx) => markMailSent.run(tx, { id, now: services.clock.now() }));
  services.log.info("mail sent", { mail_id: id, kind: row.kind, attempt: row.attempts + 1 });
}

function openMail(services: Services, row: OutboxRow): Mail {
  const { id, message_id, recipient: to, created_at: date } = row;
  if (!row.sealed_message) throw new MailRefused("the message was already deleted");
  const plain = Buffer.from(services.vault.open("outbox", id, row.sealed_message)).toString("utf8");
  return { id, message_id, to, date, ...(JSON.parse(plain) as { subject: string; text: string }) };
}

async function postpone(services: Services, row: OutboxRow, last_error: string): Promise<void> {
  const delay = Math.min(HOUR_MS, FIRST_RETRY_MS * 2 ** row.attempts);
  const jittered = Math.round(delay * (1 + randomInt(-100, 101) / 1_000));
  const next_at = Math.min(services.clock.now() + jittered, row.give_up_at);
  services.log.warn("mail delayed", { mail_id: row.id, kind: row.kind, attempt: row.attempts + 1, error: last_error });
  await record(services, (tx) => delayMail.run(tx, { id: row.id, next_at, last_error }));
}

async function giveUp(services: Services, row: OutboxRow, last_error: string): Promise<void> {
  services.log.error("mail given up; see keyrack mail list --state dead", {
    mail_id: row.id,
    kind: row.kind,
    error: last_error,
  });
  await record(services, (tx) => markMailDead.run(tx, { id: row.id, now: services.clock.now(), last_error }));
}

/** Error texts of mail servers may be long and contain control characters. */
function oneLine(text: string): string {
  return text.replace(/[\u0000-\u001f\u007f]+/g, " ").slice(0, ERROR_CHARS);
}

/** Deletes sent messages after a week and undeliverable ones after 30 days. */
export async function reapOutbox(services: Services): Promise<void> {
  const now = services.clock.now();
  const [sent, dead] = [now - KEEP_SENT_MS, now - KEEP_DEAD_MS];
  await reap(services, reapMail, { state: "sent", before: sent });
  await reap(services, reapMail, { state: "dead", before: dead });
  await reap(services, reapMailCounts, { before: now - DAY_MS, latest: latestCredible(now) });
  await services.mail.transport.prune();
}

/** Queued messages, and those that became undeliverable within the last day. */
export async function mailState(services: Services): Promise<{ queued: number; dead: number }> {
  const { read } = services.store;
  const [queued, dead] = await Promise.all([
    countMail.count(read, { state: "queued" }),
    countDeadMailSince.count(read, { since: services.clock.now() - DAY_MS }),
  ]);
  return { queued, dead };
}

function viewMail(row: OutboxRow) {
  return {
    object: "mail" as const,
    id: row.id,
    kind: row.kind,
    to: row.recipient,
    state: row.state,
    attempts: row.attempts,
    created_at: formatTimestamp(row.created_at),
    next_at: row.state === "queued" ? formatTimestamp(row.next_at) : null,
    settled_at: formatTimestampOrNull(row.settled_at),
    last_error: row.last_error,
    message_id: row.message_id,
  };
}

export type MailView = ReturnType<typeof viewMail> & { subject?: string; text?: string };

export async function listMail(services: Services, query: { state?: OutboxState | undefined }) {
  return listOf(await listMailRows(services.store.read, query.state ?? null), LIST_MAX, viewMail);
}

/** The body contains a live link, so it is decrypted only on request. */
export async function showMail(services: Services, id: string, withBody: boolean): Promise<MailView> {
  const row = await mailById.first(services.store.read, { id });
  if (!row) throw fail("mail_not_found");
  if (!withBody || !row.sealed_message) return viewMail(row);
  const { subject, text } = openMail(services, row);
  return { ...viewMail(row), subject, text };
}

export async function retryMail(services: Services, id: string): Promise<MailView> {
  const now = services.clock.now();
  const moved = await record(services, (tx) => requeueMail.run(tx, { id, now, give_up_at: now + GIVE_UP_MS }));
  const row = await mailById.first(services.store.read, { id });
  if (!row) throw fail("mail_not_found");
  if (moved === 0) throw fail("mail_not_retryable");
  services.mail.wake();
  return viewMail(row);
}
