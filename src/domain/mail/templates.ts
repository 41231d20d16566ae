// The text of every email: plain text, short, one link. Tokens are in the URL fragment, which servers and proxies never
// see. Subjects are fixed. The only user input is the name of a workspace, on a line of its own that says what it is
// and that no mail program makes a link of: the person who chose it must not be able to write to strangers in Keyrack's
// name.
import type { Services } from "../core/context.ts";

type MailKind =
  | "email_verification"
  | "existing_account"
  | "unfinished_account"
  | "password_reset"
  | "password_changed"
  | "password_was_reset"
  | "workspace_invite"
  | "key_quarantined"
  | "key_digest";

const NAME_CHARS = 60;

export type MailMessage = { kind: MailKind; subject: string; text: string };

export function pageLink(services: Services, page: "verify" | "reset" | "invite", token: string): string {
  return `${services.publicUrl}/#/${page}?token=${token}`;
}

/** The page where a person requests a reset link. */
function forgotPage(services: Services): string {
  return `${services.publicUrl}/#/forgot`;
}

/** The last line names the server, so that the reader can distinguish the email from phishing; not as a second link. */
function message(services: Services, kind: MailKind, subject: string, paragraphs: readonly string[]): MailMessage {
  const sender = `Sent by Keyrack at ${new URL(services.publicUrl).host}`;
  return { kind, subject, text: `${[...paragraphs, sender].join("\n\n")}\n` };
}

/** A text that a person chose, on one line. Dots and slashes stay only before or after a space. */
function unlinked(text: string): string {
  const onOneLine = text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]+/gu, " ").trim();
  const apart = onOneLine.replace(/(?<=\S)[.:/\\@](?=\S)/g, " ");
  return [...apart].slice(0, NAME_CHARS).join("").trim();
}

function workspaceLine(name: string): string {
  return `Workspace: ${unlinked(name)}`;
}

export function verificationMail(services: Services, token: string): MailMessage {
  return message(services, "email_verification", "Verify your email address", [
    "Click the link below to verify your email address:",
    pageLink(services, "verify", token),
    "This link can be used once and expires in 24 hours. If you did not request it, you can ignore this email.",
  ]);
}

export function existingAccountMail(services: Services): MailMessage {
  return message(services, "existing_account", "You already have an account", [
    "Someone tried to sign up with this email address, but it already has an account. Nothing was changed.",
    `If this was you, log in with your existing password. If you forgot it, reset it here:\n${forgotPage(services)}`,
  ]);
}

export function unfinishedAccountMail(services: Services, token: string): MailMessage {
  return message(services, "unfinished_account", "Finish signing up", [
    "An account was created for this email address but never verified. Choose a password to finish signing up:",
    pageLink(services, "reset", token),
    "Any password set before will stop working. This link can be used once and expires in 30 minutes.",
  ]);
}

export function resetMail(services: Services, token: string): MailMessage {
  return message(services, "password_reset", "Reset your password", [
    "Click the link below to choose a new password:",
    pageLink(services, "reset", token),
    "This link can be used once and expires in 30 minutes. If you did not request it, you can ignore this email: your password has not changed.",
  ]);
}

export function passwordChangedMail(services: Services): MailMessage {
  return message(services, "password_changed", "Your password was changed", [
    "The password of your account was changed, and all other sessions were signed out.",
    `If you did not do this, reset your password now:\n${forgotPage(services)}`,
  ]);
}

export function passwordWasResetMail(services: Services): MailMessage {
  return message(services, "password_was_reset", "Your password was reset", [
    "The password of your account was reset with a link sent to this address, and all sessions were signed out.",
    `If you did not do this, someone may have access to your email. Secure your email account, then reset your password again:\n${forgotPage(services)}`,
  ]);
}

export function inviteMail(services: Services, workspace: string, role: string, token: string): MailMessage {
  return message(services, "workspace_invite", "You have been invited to a Keyrack workspace", [
    `You have been invited to join a workspace as ${role}.`,
    workspaceLine(workspace),
    `Accept the invitation here:\n${pageLink(services, "invite", token)}`,
    "This link can be used once and expires in 7 days. If you do not know this workspace, you can ignore this email.",
  ]);
}

export type DigestLine = { display_prefix: string; tenant: string; at: string; kind: "expiry" | "idle" };

const DIGEST_WORDS = { expiry: "expires", idle: "will be revoked (unused)" };

const countOf = (n: number, noun: string): string => `${n} ${noun}${n === 1 ? "" : "s"}`;

/** No names of keys: customers type those in the portal. */
export function keyDigestMail(
  services: Services,
  workspace: string,
  { expiring, idle, waiting, lines }: { expiring: number; idle: number; waiting: number; lines: readonly DigestLine[] },
): MailMessage {
  const listed = lines.map(({ display_prefix, tenant, at, kind }) => {
    return `${at}  ${display_prefix}… ${DIGEST_WORDS[kind]}\nTenant: ${unlinked(tenant)}`;
  });
  const more = expiring + idle - lines.length;
  const sentences = [
    ...(expiring > 0 ? [`${countOf(expiring, "key")} ${expiring === 1 ? "expires" : "expire"} soon.`] : []),
    ...(idle > 0 ? [`${countOf(idle, "unused key")} will be revoked soon.`] : []),
    ...(waiting > 0 ? [`${countOf(waiting, "unused key")} will be revoked later, because of the daily limit.`] : []),
  ];
  return message(services, "key_digest", "API keys about to expire or be revoked", [
    sentences.join(" "),
    workspaceLine(workspace),
    ...(listed.length > 0 ? [[...listed, ...(more > 0 ? [`and ${more} more`] : [])].join("\n")] : []),
    `Rotate the keys that are still needed:\n${services.publicUrl}/`,
  ]);
}

/** `where` is the location reported by the scanner: masked, on one line, empty if not reported. */
export function leakMail(
  services: Services,
  workspace: string,
  leak: { key: string; live: boolean; where: string },
): MailMessage {
  const found = leak.where === "" ? "" : `\nFound at: ${leak.where}`;
  return message(services, "key_quarantined", "Action required: a key was leaked", [
    `A secret scanner found a key of this workspace in public: ${leak.key}…${found}`,
    workspaceLine(workspace),
    leak.live
      ? "The key has been quarantined: it stops working within one hour, and this cannot be extended. Rotate it now and switch to the new key."
      : "This is a test key, so nothing was changed. Rotate it when you can, and remove it from where it was published.",
    `Rotate it in the dashboard:\n${services.publicUrl}/`,
  ]);
}
