// Converts mail for nodemailer, the same for SMTP and files: plain text, single-line header values, our own Message-ID.
import type { Mail } from "./message.ts";

export function toMessage({ to, subject, text, message_id, date }: Mail, from: string) {
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

/** The message as RFC 5322 bytes. nodemailer is loaded lazily: most instances send no mail on most days. */
export async function toBytes(mail: Mail, from: string): Promise<Buffer> {
  const { createTransport } = await import("nodemailer");
  const composer = createTransport({ streamTransport: true, buffer: true, newline: "windows" });
  const { message } = await composer.sendMail(toMessage(mail, from));
  return message as Buffer;
}
