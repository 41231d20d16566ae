// `keyrack mail list/show/retry`: the outbox. Bodies hold live links, so they are shown only when asked for.
import { Option, type Command } from "commander";
import type { OutboxState } from "../../store/schema/tables.ts";
import { operate, operatorFlags, show, type OperatorOptions } from "../operator.ts";
import { table } from "../ui/output.ts";

export function addMailCommands(program: Command): void {
  const mail = program.command("mail").description("Mail that is waiting, was sent, or could not be delivered.");
  operatorFlags(mail.command("list"), ["keyrack mail list", "keyrack mail list --state dead"])
    .description("The outbox, newest first.")
    .addOption(new Option("--state <state>", "only these").choices(["queued", "sent", "dead"]))
    .action((options: OperatorOptions & { state?: OutboxState }) => list(options));
  operatorFlags(mail.command("show"), ["keyrack mail show ID", "keyrack mail show ID --body"])
    .description("One message.")
    .argument("<id>", "id of the message")
    .option("--body", "also its text, which may hold a live link")
    .action((id: string, options: OperatorOptions & { body?: true }) => showOne(id, options));
  operatorFlags(mail.command("retry"), ["keyrack mail retry ID", "keyrack mail retry ID --json"])
    .description("Try again to deliver a message, now.")
    .argument("<id>", "id of the message")
    .action((id: string, options: OperatorOptions) => retry(id, options));
}

async function list(options: OperatorOptions & { state?: OutboxState }): Promise<void> {
  const { state } = options;
  const json = await operate(options, "mail.list", { state });
  show(options, {
    json,
    quiet: json.data.map(({ id }) => id).join("\n"),
    human: table([
      ["ID", "STATE", "KIND", "TO", "TRIES", "CREATED", "LAST ERROR"],
      ...json.data.map((mail) => [
        mail.id,
        mail.state,
        mail.kind,
        mail.to,
        String(mail.attempts),
        mail.created_at,
        mail.last_error ?? "",
      ]),
    ]),
  });
}

async function showOne(id: string, options: OperatorOptions & { body?: true }): Promise<void> {
  const json = await operate(options, "mail.show", { id, body: options.body === true });
  const { subject, text, object: _object, ...rest } = json;
  const lines = Object.entries(rest).map(([name, value]) => [name, String(value ?? "")]);
  const body = text === undefined ? "" : `\n\nSubject: ${subject}\n\n${text}`;
  show(options, { json, quiet: id, human: table(lines) + body });
}

async function retry(id: string, options: OperatorOptions): Promise<void> {
  const json = await operate(options, "mail.retry", { id });
  const after = json.state === "sent" ? "It has gone out." : `It is ${json.state}: ${json.last_error ?? "waiting"}.`;
  show(options, { json, quiet: id, human: after });
}
