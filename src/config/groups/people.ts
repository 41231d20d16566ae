// Mail, and who may sign up and log in.
import { count, integer, mail, oneOf, text, zeroOrCount } from "../parsers.ts";
import { setting } from "../setting.ts";

export const peopleSettings = {
  mail_url: setting(
    mail,
    "",
    "smtp://…, smtps://…, file:DIR or log: (to the log); unset = files in the mail folder of the data dir.",
    { secret: true },
  ),
  mail_from: setting(text, "Keyrack <keyrack@localhost>", "Sender of all mail."),
  sign_up: setting(
    oneOf("open", "invite", "closed"),
    "open",
    "Who may sign up: open = everyone, invite = people with an invitation, closed = no one (see keyrack user create).",
  ),
  unverified_login: setting(
    oneOf("allow", "refuse"),
    "allow",
    "refuse = an account can log in only once its address is verified, so that signing up never shows whether an address has an account.",
  ),
  password_min: setting(integer(8, 64), "12", "Minimum length of passwords, 8 to 64."),
  workspaces_per_person: setting(
    zeroOrCount,
    "25",
    "Maximum number of workspaces that a person may own, 3 while their address is unverified; 0 = only the bootstrap token creates workspaces.",
  ),
  invite_mails_per_day: setting(
    count,
    "100",
    "Maximum number of invitations within 24 hours from one account (all workspaces with the same creator).",
  ),
} as const;
