// `keyrack key lookup`: what a pasted key is, and why a verifier refuses it. The key comes from standard input or a
// hidden prompt, never from an argument, which process lists show.
import type { Command } from "commander";
import type { RouteOutput } from "../../../client.ts";
import { sendRequest } from "../../api/generated.ts";
import { parseList } from "../../api/list-flag.ts";
import { targetFlags, type TargetOptions } from "../../api/target.ts";
import { cell } from "../../ui/format.ts";
import { ExitError, examples, outputFlags, printResult, table, type OutputOptions } from "../../ui/output.ts";
import { readSecret } from "../../ui/secret.ts";

type LookupOptions = TargetOptions & OutputOptions & { scopes?: string[]; projectId?: string; ip?: string };

type Lookup = RouteOutput<"POST /v1/keys/lookup">;

export function addLookupCommand(key: Command): void {
  const command = key
    .command("lookup")
    .description("Look up the key on standard input: its record, and why a verifier refuses it. Exit 1 if it does.")
    .allowExcessArguments()
    .option("--scopes <value...>", "scopes that the request needs")
    .option("--project-id <value>", "the project that the key is for")
    .option("--ip <value>", "a client's address, judged by the key's allowed_cidrs");
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
  if (found.admitted !== true) throw new ExitError("A verifier does not admit this key.", 1);
}

function describe({ kind, env, display_prefix, record, project, tenant, admitted, reasons, nodes }: Lookup): string {
  const rows: [string, unknown][] = [
    ["kind", kind],
    ["environment", env],
    ["display prefix", display_prefix],
    ["id", record?.id],
    ["name", record?.name],
    ["project", project?.slug],
    ["tenant", tenant?.external_id],
    ["admitted", admitted === null ? null : admitted ? "yes" : "no"],
    ["nodes", nodes && `${nodes.current} of ${nodes.live} live ones are current`],
  ];
  const shown = rows.map(([name, value]) => [name, cell(value ?? null)]);
  const why = reasons.map(({ message, since }) => `- ${message}${since ? ` Since ${since}.` : ""}`);
  return [table(shown), ...why].join("\n");
}
