// `keyrack user list/unlock/reset-link`: help for people who are locked out where no mail works.
import type { Command } from "commander";
import { operate, operatorFlags, show, type OperatorOptions } from "../operator.ts";
import { table } from "../ui/output.ts";

export function addUserCommands(program: Command): void {
  const user = program.command("user").description("People with an account on this deployment.");
  operatorFlags(user.command("list"), ["keyrack user list", "keyrack user list --json"])
    .description("Every account, newest first.")
    .action((options: OperatorOptions) => list(options));
  operatorFlags(user.command("unlock"), [
    "keyrack user unlock ada@example.com",
    "keyrack user unlock ada@example.com --data-dir /var/lib/keyrack",
  ])
    .description("Forget an account's failed log-ins.")
    .argument("<email>", "address of the account")
    .action((email: string, options: OperatorOptions) => unlock(email, options));
  operatorFlags(user.command("reset-link"), [
    "keyrack user reset-link ada@example.com",
    "keyrack user reset-link ada@example.com --quiet",
  ])
    .description("Make a link that sets a new password: valid once, for 30 minutes. --quiet prints the link alone.")
    .argument("<email>", "address of the account")
    .action((email: string, options: OperatorOptions) => resetLink(email, options));
}

async function list(options: OperatorOptions): Promise<void> {
  const users = await operate(options, "user.list");
  const yes = (flag: boolean): string => (flag ? "yes" : "no");
  show(options, {
    json: users,
    quiet: users.data.map(({ id }) => id).join("\n"),
    human: table([
      ["EMAIL", "VERIFIED", "CREATED", "LAST LOG-IN", "LOG-IN DISABLED"],
      ...users.data.map((user) => [
        user.email,
        yes(user.email_verified),
        user.created_at,
        user.last_login_at ?? "never",
        yes(user.login_disabled),
      ]),
    ]),
  });
}

async function unlock(email: string, options: OperatorOptions): Promise<void> {
  const json = await operate(options, "user.unlock", { email });
  show(options, { json, quiet: json.id, human: `${json.email} may log in again.` });
}

async function resetLink(email: string, options: OperatorOptions): Promise<void> {
  const json = await operate(options, "user.reset-link", { email });
  show(options, { json, quiet: json.link, human: `${json.link}\nValid once, until ${json.expires_at}.` });
}
