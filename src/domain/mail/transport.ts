// Mail transports: SMTP, files, or the log, as KEYRACK_MAIL_URL says. nodemailer is loaded lazily: most instances send
// no mail on most days.
import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { DAY_MS } from "../../kernel/durations.ts";
import { createDirDurably, writeFileAtomicallyAsync } from "../../platform/fsync.ts";
import { MailRefused, type Mail, type MailTransport } from "./message.ts";

const CONNECT_MS = 10_000;
const IDLE_MS = 30_000;
const KEEP_MS = 7 * DAY_MS;

export type MailTarget =
  | { kind: "smtp"; url: string }
  | { kind: "file"; dir: string }
  | { kind: "log"; write: (mail: Mail) => void };

export async function openTransport(target: MailTarget, from: string): Promise<MailTransport> {
  if (target.kind === "smtp") return smtpTransport(target.url, from);
  if (target.kind === "file") return fileTransport(target.dir, from);
  return { deliver: async (mail) => target.write(mail), prune: async () => {}, close: () => {} };
}

/** The same for SMTP and files: plain text, single-line header values, our own Message-ID. */
function toMessage({ to, subject, text, message_id, date }: Mail, from: string) {
  return {
    from: oneLine(from),
    to: { name: "", address: oneLine(to) },
    subject: oneLine(subject),
    text,
    messageId: message_id,
    date: new Date(date),
    headers: { "Auto-Submitted": "auto-generated" },
    disableFileAccess: true,
    disableUrlAccess: true,
  };
}

/** A line break in a header value would start another header. */
function oneLine(value: string): string {
  return value.replace(/[\r\n]+/g, " ");
}

type SmtpError = Error & { responseCode?: number; command?: string };

/** A permanent rejection of the recipient or the message is not retried; an unreachable or busy server is. */
async function smtpTransport(url: string, from: string): Promise<MailTransport> {
  const { createTransport } = await import("nodemailer");
  const timeouts = { connectionTimeout: CONNECT_MS, greetingTimeout: CONNECT_MS, socketTimeout: IDLE_MS };
  const transport = createTransport({ url, ...timeouts });
  return {
    async deliver(mail) {
      try {
        await transport.sendMail(toMessage(mail, from));
      } catch (error) {
        throw isPermanent(error as SmtpError) ? new MailRefused((error as Error).message) : error;
      }
    },
    async prune() {},
    close: () => transport.close(),
  };
}

/** A 5xx to MAIL, RCPT or DATA is about this message; to EHLO or AUTH it is about the set-up, which can be fixed. */
function isPermanent({ responseCode = 0, command = "" }: SmtpError): boolean {
  return responseCode >= 500 && responseCode < 600 && /^(MAIL FROM|RCPT TO|DATA)$/.test(command);
}

/**
 * Writes each message to an .eml file, readable by its owner only and deleted after a week. Caution: this folder is a
 * mailbox, and the only place where live links are stored in plain text.
 */
export function fileTransport(dir: string, from: string): MailTransport {
  // Shared by concurrent deliveries: none may finish before the name of a new folder is synced.
  let creation: Promise<void> | undefined;
  return {
    async deliver(mail) {
      const { createTransport } = await import("nodemailer");
      const composer = createTransport({ streamTransport: true, buffer: true, newline: "windows" });
      const { message } = await composer.sendMail(toMessage(mail, from));
      creation ??= createDirDurably(dir).finally(() => (creation = undefined));
      await creation;
      // Named by the message, so that a second delivery replaces the first. Durable, because the outbox forgets it.
      const name = `${new Date(mail.date).toISOString().replace(/[:.]/g, "-")}-${mail.id}.eml`;
      await writeFileAtomicallyAsync(join(dir, name), message as Buffer);
    },
    async prune() {
      const names = await readdir(dir).catch(() => []);
      for (const name of names.filter((each) => /\.(eml|tmp)$/.test(each))) {
        const file = join(dir, name);
        // Date.now() and not our clock: mtime comes from the wall clock.
        const { mtimeMs } = await stat(file).catch(() => ({ mtimeMs: Number.POSITIVE_INFINITY }));
        if (Date.now() - mtimeMs > KEEP_MS) await rm(file, { force: true });
      }
    },
    close() {},
  };
}
