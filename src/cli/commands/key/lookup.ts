// `keyrack key lookup`: what a pasted key is, and why it would be refused. The key comes from standard input or a
// hidden prompt, never from an argument, which process lists show.
import type { Command } from "commander";
import type { RouteOutput } from "../../../client.ts";
import { sendRequest } from "../../api/send.ts";
import { parseList } from "../../api/list-flag.ts";
import { targetFlags, type TargetOptions } from "../../api/target.ts";
import { cell } from "../../ui/format.ts";
import { ExitError, examples, outputFlags, printResult, table, type OutputOptions } from "../../ui/output.ts";
import { readSecret } from "../../ui/secret.ts";
import { reasonLines, verdictFields } from "./verdict.ts";

type LookupOptions = TargetOptions & OutputOptions & { scopes?: string[]; projectId?: string; ip?: string };

type Lookup = RouteOutput<"POST /v1/keys/lookup">;

export function addLookupCommand(key: Command): void {
  const command = key
    .command("lookup")
    .description("Look up the key on standard input: its record, and why it would be refused. Exit 1 if it would.")
    .allowExcessArguments()
    .option("--scopes <value...>", "scopes to check the key against")
    .option("--project-id <value>", "project to check the key against")
    .option("--ip <value>", "client address to check against the key's IP allow list");
  targetFlags(outputFlags(command, "print only the key's id"))
    .addHelpText("after", examples(["keyrack key lookup < key.txt", "pbpaste | keyrack key lookup --json"]))
    .action((options: LookupOptions) => lookup(command.args, options));
}

async function lookup(args: readonly string[], options: LookupOptions): Promise<void> {
  if (args.length > 0)
    throw new ExitError("A key must not be an argument: process lists show those. Pass it on standard input.", 2);
  const scopes = options.scopes && parseList("scopes", options.scopes);
  const key = (await readSecret("Key")).trim();
  if (!key) throw new ExitError("No key. Pass it on standard input.", 2);
  const { projectId, ip } = options;
  const body = { key, ...(scopes && { scopes }), ...(projectId && { project_id: projectId }), ...(ip && { ip }) };
  const { text } = await sendRequest({ method: "POST", path: "/v1/keys/lookup", body }, options);
  const found = JSON.parse(text) as Lookup;
  printResult(options, { json: found, quiet: found.record?.id ?? "", human: describe(found) });
  if (found.admitted !== true) throw new ExitError("This key would be refused.", 1);
}

function describe(found: Lookup): string {
  const { kind, env, display_prefix, record, project, tenant } = found;
  const rows: [string, unknown][] = [
    ["kind", kind],
    ["environment", env],
    ["display prefix", display_prefix],
    ["id", record?.id],
    ["name", record?.name],
    ["project", project?.slug],
    ["tenant", tenant?.external_id],
    ...Object.entries(verdictFields(found)),
  ];
  const shown = rows.map(([name, value]) => [name, cell(value ?? null)]);
  return [table(shown), ...reasonLines(found)].join("\n");
}
