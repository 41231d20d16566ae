// Opens the mail transport chosen by KEYRACK_MAIL_URL.
import { fileTransport } from "./file.ts";
import type { Mail, MailTransport } from "./message.ts";

export type MailTarget =
  | { kind: "smtp"; url: string }
  | { kind: "file"; dir: string }
  | { kind: "log"; write: (mail: Mail) => void };

export async function openTransport(target: MailTarget, from: string): Promise<MailTransport> {
  if (target.kind === "smtp") return (await import("./smtp.ts")).smtpTransport(target.url, from);
  if (target.kind === "file") return fileTransport(target.dir, from);
  return { deliver: async (mail) => target.write(mail), prune: async () => {}, close: () => {} };
}
