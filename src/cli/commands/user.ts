// `keyrack user create/list/unlock/reset-link`: accounts where sign-up is closed, and help for people who are locked
// out where mail does not work.
import type { Command } from "commander";
import { isEmail } from "../../kernel/emails.ts";
import { operate, operatorFlags, type OperatorOptions } from "../operator.ts";
import { ExitError, printResult, table } from "../ui/output.ts";

export function addTo(program: Command): void {
  const user = program.command("user");
  operatorFlags(user.command("list"), ["keyrack user list", "keyrack user list --json"])
    .description("List accounts, newest first.")
    .action((options: OperatorOptions) => list(options));
  operatorFlags(
    user.command("create"),
    ["keyrack user create ada@example.com", "keyrack user create ada@example.com --quiet"],
    "print only the link",
  )
    .description("Create an account and a link that sets its password. The link works once, within 30 minutes.")
    .argument("<email>", "email address of the account")
    .action((email: string, options: OperatorOptions) => create(email, options));
  operatorFlags(user.command("unlock"), [
    "keyrack user unlock ada@example.com",
    "keyrack user unlock ada@example.com --data-dir /var/lib/keyrack",
  ])
    .description("Clear an account's failed logins, so that it can log in again.")
    .argument("<email>", "email address of the account")
    .action((email: string, options: OperatorOptions) => unlock(email, options));
  operatorFlags(
    user.command("reset-link"),
    ["keyrack user reset-link ada@example.com", "keyrack user reset-link ada@example.com --quiet"],
    "print only the link",
  )
    .description("Create a password reset link. It works once, within 30 minutes.")
    .argument("<email>", "email address of the account")
    .action((email: string, options: OperatorOptions) => resetLink(email, options));
}

async function list(options: OperatorOptions): Promise<void> {
  const users = await operate(options, "user.list");
  const yesNo = (flag: boolean): string => (flag ? "yes" : "no");
  printResult(options, {
    json: users,
    quiet: users.data.map(({ id }) => id).join("\n"),
    human: table([
      ["EMAIL", "VERIFIED", "CREATED", "LAST LOGIN", "LOGIN DISABLED"],
      ...users.data.map((user) => [
        user.email,
        yesNo(user.email_verified),
        user.created_at,
        user.last_login_at ?? "never",
        yesNo(user.login_disabled),
      ]),
    ]),
  });
}

async function unlock(email: string, options: OperatorOptions): Promise<void> {
  const json = await operate(options, "user.unlock", { email });
  printResult(options, { json, quiet: json.id, human: `Unlocked ${json.email}.` });
}

async function create(email: string, options: OperatorOptions): Promise<void> {
  if (!isEmail(email)) throw new ExitError(`${email} is not an email address.`, 2);
  printLink(await operate(options, "user.create", { email }), options);
}

async function resetLink(email: string, options: OperatorOptions): Promise<void> {
  printLink(await operate(options, "user.reset-link", { email }), options);
}

function printLink(json: { link: string; expires_at: string }, options: OperatorOptions): void {
  printResult(options, { json, quiet: json.link, human: `${json.link}\nWorks once, until ${json.expires_at}.` });
}
