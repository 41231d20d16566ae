// SMTP transport. A permanent rejection (5xx for the recipient or the message) is not retried; an unreachable or busy
// server is.
import { createTransport } from "nodemailer";
import { MailRefused, type MailTransport } from "./message.ts";
import { toMessage } from "./mime.ts";

const CONNECT_MS = 10_000;
const IDLE_MS = 30_000;

type SmtpError = Error & { responseCode?: number; command?: string };

export function smtpTransport(url: string, from: string): MailTransport {
  const transport = createTransport({
    url,
    connectionTimeout: CONNECT_MS,
    greetingTimeout: CONNECT_MS,
    socketTimeout: IDLE_MS,
  });
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
