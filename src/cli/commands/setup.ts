// `keyrack setup link`: a link with which the first owner claims a server.
import type { Command } from "commander";
import { operate, operatorFlags, type OperatorOptions } from "../operator.ts";
import { printResult } from "../ui/output.ts";

export function addTo(program: Command): void {
  const setup = program.command("setup");
  operatorFlags(
    setup.command("link"),
    ["keyrack setup link", "keyrack setup link --data-dir /var/lib/keyrack --quiet"],
    "print only the link",
  )
    .description("Print a link that makes you the owner of a new server. It works once, within an hour.")
    .action((options: OperatorOptions) => link(options));
}

async function link(options: OperatorOptions): Promise<void> {
  const json = await operate(options, "setup.link");
  printResult(options, { json, quiet: json.url, human: `${json.url}\nWorks once, until ${json.expires_at}.` });
}
