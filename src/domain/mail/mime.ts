// A message in the form nodemailer takes, the same for SMTP and for files: plain text, header values on one line and
// encoded (RFC 2047), our own Message-ID.
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

/** The message as it goes over the wire (RFC 5322). Most days an instance sends no mail, and never loads nodemailer. */
export async function toBytes(mail: Mail, from: string): Promise<Buffer> {
  const { createTransport } = await import("nodemailer");
  const composer = createTransport({ streamTransport: true, buffer: true, newline: "windows" });
  const { message } = await composer.sendMail(toMessage(mail, from));
  return message as Buffer;
}
