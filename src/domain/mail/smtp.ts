// SMTP. A refusal for good (5xx for the recipient or the message) is told apart from a server that is away or busy:
// only the latter is worth another try.
import { createTransport } from "nodemailer";
import { MailRefused, type MailTransport } from "./message.ts";
import { toMessage } from "./mime.ts";

const CONNECT_MS = 10_000;
const SILENCE_MS = 30_000;

type SmtpError = Error & { responseCode?: number; command?: string };

export function smtpTransport(url: string, from: string): MailTransport {
  const transport = createTransport({
    url,
    connectionTimeout: CONNECT_MS,
    greetingTimeout: CONNECT_MS,
    socketTimeout: SILENCE_MS,
  });
  return {
    async deliver(mail) {
      try {
        await transport.sendMail(toMessage(mail, from));
      } catch (error) {
        throw isFinal(error as SmtpError) ? new MailRefused((error as Error).message) : error;
      }
    },
    async tidy() {},
    close: () => transport.close(),
  };
}

/** 5xx to MAIL, RCPT or DATA is about this message; a 5xx to EHLO or AUTH is about the set-up, which can be mended. */
function isFinal({ responseCode = 0, command = "" }: SmtpError): boolean {
  return responseCode >= 500 && responseCode < 600 && /^(MAIL FROM|RCPT TO|DATA)$/.test(command);
}
