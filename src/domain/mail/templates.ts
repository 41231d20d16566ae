// The words of every message: plain text, short, one link. Tokens stand behind the #, which no server and no proxy
// ever sees. Nothing a stranger typed goes in but the name of a workspace, on one line.
import type { Services } from "../core/context.ts";

export type MailKind =
  | "email_verification"
  | "existing_account"
  | "unfinished_account"
  | "password_reset"
  | "password_changed"
  | "password_was_reset"
  | "workspace_invite"
  | "key_quarantined";

export type MailMessage = { kind: MailKind; subject: string; text: string };

export function pageLink(services: Services, page: "verify" | "reset" | "invite", token: string): string {
  return `${services.publicUrl}/#/${page}?token=${token}`;
}

/** Where a person has a link sent to choose a new password. There is no page to log in on: programs do that. */
function forgotPage(services: Services): string {
  return `${services.publicUrl}/#/forgot`;
}

function letter(kind: MailKind, subject: string, lines: readonly string[]): MailMessage {
  return { kind, subject: onOneLine(subject), text: `${lines.join("\n\n")}\n` };
}

function onOneLine(text: string): string {
  return text
    .replace(/[\p{Cc}\p{Cf}\u2028\u2029]+/gu, " ")
    .trim()
    .slice(0, 200);
}

export function verificationMail(services: Services, token: string): MailMessage {
  return letter("email_verification", "Verify your e-mail address", [
    "Please confirm that this is your e-mail address:",
    pageLink(services, "verify", token),
    "The link works once, for 24 hours. If you did not ask for it, ignore this message.",
  ]);
}

export function existingAccountMail(services: Services): MailMessage {
  return letter("existing_account", "You already have an account", [
    "Somebody, perhaps you, tried to sign up with this e-mail address. It has an account already, and nothing was changed.",
    `If this was you, log in with the password you have. If you have forgotten it, choose a new one:\n${forgotPage(services)}`,
  ]);
}

export function unfinishedAccountMail(services: Services, token: string): MailMessage {
  return letter("unfinished_account", "Finish signing up", [
    "An account for this e-mail address was begun and never confirmed. Choose a password to make it yours:",
    pageLink(services, "reset", token),
    "Whatever password was set before stops working. The link works once, for 30 minutes.",
  ]);
}

export function resetMail(services: Services, token: string): MailMessage {
  return letter("password_reset", "Reset your password", [
    "Choose a new password here:",
    pageLink(services, "reset", token),
    "The link works once, for 30 minutes. If you did not ask for it, ignore this message: nothing has changed.",
  ]);
}

export function passwordChangedMail(services: Services): MailMessage {
  return letter("password_changed", "Your password was changed", [
    "The password of your account was changed, and every other session was ended.",
    `If this was not you, reset your password at once:\n${forgotPage(services)}`,
  ]);
}

export function passwordWasResetMail(services: Services): MailMessage {
  return letter("password_was_reset", "Your password was reset", [
    "The password of your account was reset by a link from this mailbox, and every session was ended.",
    `If this was not you, reset it again at once and look after your mailbox:\n${forgotPage(services)}`,
  ]);
}

export function inviteMail(services: Services, workspace: string, role: string, token: string): MailMessage {
  const name = onOneLine(workspace);
  return letter("workspace_invite", `You are invited to ${name}`, [
    `You are invited to join the workspace "${name}" as ${role}:`,
    pageLink(services, "invite", token),
    "The link works once, for 7 days. If you do not know this workspace, ignore this message.",
  ]);
}

/** `where` is what the scanner says of the place: masked, on one line, and empty where it said nothing. */
export function leakMail(
  services: Services,
  workspace: string,
  leak: { key: string; live: boolean; where: string },
): MailMessage {
  const found = leak.where === "" ? "" : ` Where: ${leak.where}`;
  return letter("key_quarantined", `A leaked key was reported: ${leak.key}`, [
    `A secret scanner found the key ${leak.key}… of the workspace "${onOneLine(workspace)}" in a public place.${found}`,
    leak.live
      ? "It is quarantined: it stops working within one hour, and that hour cannot be extended. Rotate it now, and use the new key."
      : "It is a test key, so nothing was changed. Rotate it when you can, and take it out of that place.",
    `Your programs and the keyrack command manage its keys, on this server:\n${services.publicUrl}/`,
  ]);
}
