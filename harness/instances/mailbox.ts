// Reads the mail folder of a data dir as a mailbox.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export type ReceivedMail = { to: string; subject: string; text: string; link: string | null; token: string | null };

/** Every message in the folder, oldest first. */
export function readMailbox(dir: string): ReceivedMail[] {
  let names: string[] = [];
  try {
    names = readdirSync(dir).filter((name) => name.endsWith(".eml"));
  } catch {
    // No mail yet, no folder.
  }
  // Ids are time-ordered and strictly increase, even while the clock does not move.
  const byId = (name: string): string => name.slice(-40);
  return names.toSorted((a, b) => (byId(a) < byId(b) ? -1 : 1)).map((name) => parseMail(join(dir, name)));
}

export function parseMail(file: string): ReceivedMail {
  const [head = "", ...rest] = readFileSync(file, "utf8").split("\r\n\r\n");
  const headers = head.replace(/\r\n[ \t]+/g, " ");
  const header = (name: string): string => new RegExp(`^${name}: (.*)$`, "im").exec(headers)?.[1]?.trim() ?? "";
  const body = rest.join("\r\n\r\n");
  const text = /quoted-printable/i.test(headers) ? fromQuotedPrintable(body) : body;
  const link = /https?:\/\/\S+/.exec(text)?.[0] ?? null;
  return { to: header("To"), subject: header("Subject"), text, link, token: /token=(\S+)/.exec(text)?.[1] ?? null };
}

function fromQuotedPrintable(text: string): string {
  const joined = text.replace(/=\r?\n/g, "");
  const bytes = joined.replace(/=([0-9A-F]{2})/g, (_all, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  return Buffer.from(bytes, "latin1").toString("utf8");
}
