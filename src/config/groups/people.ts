// Mail, and who may sign up and log in.
import { setting } from "../setting.ts";

export const peopleSettings = {
  mail_url: setting(
    "KEYRACK_MAIL_URL",
    "mail",
    "",
    "smtp://…, smtps://…, file:DIR or log: (to the log); unset = files in the mail folder of the data dir.",
    { secret: true },
  ),
  mail_from: setting("KEYRACK_MAIL_FROM", "text", "Keyrack <keyrack@localhost>", "Sender of all mail."),
  sign_up: setting(
    "KEYRACK_SIGN_UP",
    "sign_up",
    "open",
    "Who may sign up: open = everyone, invite = people with an invitation, closed = no one (see keyrack user create).",
  ),
  unverified_login: setting(
    "KEYRACK_UNVERIFIED_LOGIN",
    "unverified_login",
    "allow",
    "refuse = an account can log in only once its address is verified, so that signing up never shows whether an address has an account.",
  ),
  password_min: setting("KEYRACK_PASSWORD_MIN", "password_min", "12", "Minimum length of passwords, 8 to 64."),
  workspaces_per_person: setting(
    "KEYRACK_WORKSPACES_PER_PERSON",
    "zero_or_count",
    "25",
    "Maximum number of workspaces that a person may own, 3 while their address is unverified; 0 = only the bootstrap token creates workspaces.",
  ),
  invite_mails_per_day: setting(
    "KEYRACK_INVITE_MAILS_PER_DAY",
    "count",
    "100",
    "Maximum number of invitations within 24 hours from one account (all workspaces with the same creator).",
  ),
} as const;
