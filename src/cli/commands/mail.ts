// `keyrack mail list/show/retry`: the outbox. Bodies contain live links, so they are shown only on request.
import { Option, type Command } from "commander";
import type { OutboxState } from "../../store/schema/tables.ts";
import { operate, operatorFlags, type OperatorOptions } from "../operator.ts";
import { printResult, table } from "../ui/output.ts";

export function addTo(program: Command): void {
  const mail = program.command("mail");
  operatorFlags(mail.command("list"), ["keyrack mail list", "keyrack mail list --state dead"])
    .description("List outgoing mail, newest first: queued, sent, or dead (could not be delivered).")
    .addOption(new Option("--state <state>", "only mail in this state").choices(["queued", "sent", "dead"]))
    .action((options: OperatorOptions & { state?: OutboxState }) => list(options));
  operatorFlags(mail.command("show"), ["keyrack mail show ID", "keyrack mail show ID --body"])
    .description("Show one message.")
    .argument("<id>", "id of the message")
    .option("--body", "show its text too, which may contain a live link")
    .action((id: string, options: OperatorOptions & { body?: true }) => show(id, options));
  operatorFlags(mail.command("retry"), ["keyrack mail retry ID", "keyrack mail retry ID --json"])
    .description("Try to deliver a message again, now.")
    .argument("<id>", "id of the message")
    .action((id: string, options: OperatorOptions) => retry(id, options));
}

async function list(options: OperatorOptions & { state?: OutboxState }): Promise<void> {
  const { state } = options;
  const json = await operate(options, "mail.list", { state });
  printResult(options, {
    json,
    quiet: json.data.map(({ id }) => id).join("\n"),
    human: table([
      ["ID", "STATE", "KIND", "TO", "ATTEMPTS", "CREATED", "LAST ERROR"],
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

async function show(id: string, options: OperatorOptions & { body?: true }): Promise<void> {
  const json = await operate(options, "mail.show", { id, body: options.body === true });
  const { subject, text, object: _object, ...fields } = json;
  const lines = Object.entries(fields).map(([name, value]) => [name, String(value ?? "")]);
  const body = text === undefined ? "" : `\n\nSubject: ${subject}\n\n${text}`;
  printResult(options, { json, quiet: id, human: table(lines) + body });
}

async function retry(id: string, options: OperatorOptions): Promise<void> {
  const json = await operate(options, "mail.retry", { id });
  const human =
    json.state === "sent" ? "Sent." : `Not sent (${json.state}): ${json.last_error ?? "waiting for the next attempt"}.`;
  printResult(options, { json, quiet: id, human });
}
