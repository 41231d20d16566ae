// How mail leaves this machine, by the setting KEYRACK_MAIL_URL.
import { fileTransport } from "./file.ts";
import type { Mail, MailTransport } from "./mail.ts";
import { smtpTransport } from "./smtp.ts";

export type MailTarget =
  | { kind: "smtp"; url: string }
  | { kind: "file"; dir: string }
  | { kind: "log"; write: (mail: Mail) => void };

export function openTransport(target: MailTarget, from: string): MailTransport {
  if (target.kind === "smtp") return smtpTransport(target.url, from);
  if (target.kind === "file") return fileTransport(target.dir, from);
  return { deliver: async (mail) => target.write(mail), tidy: async () => {}, close: () => {} };
}
