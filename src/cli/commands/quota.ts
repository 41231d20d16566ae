// `keyrack quota`: balances and grants. Each command is about the quotas of a key or of a tenant.
import type { Command } from "commander";
import { addApiCommands } from "../api/generated.ts";
import { sendListRequest, sendRequest, type ApiOptions } from "../api/send.ts";
import { targetFlags } from "../api/target.ts";
import { listText, recordTable, type Fields, type List } from "../ui/format.ts";
import { ExitError, examples, outputFlags, print, printResult, type Examples } from "../ui/output.ts";

type QuotaOptions = ApiOptions & {
  keyId?: string;
  tenantId?: string;
  env?: string;
  quotaId?: string;
  limit?: string;
  cursor?: string;
  units?: string;
  expiresAt?: string;
  reason?: string;
  reference?: string;
};

const BALANCE = ["id", "scope", "source", "env", "amount", "spent", "granted", "held", "remaining", "resets_at"];
const GRANT = ["id", "units", "remaining", "expires_at", "reference", "voided_at", "created_at"];

/** The path of a key's or a tenant's quotas. An environment can be chosen for a tenant only. */
function pathOf({ keyId, tenantId, env }: QuotaOptions): string {
  if ((keyId === undefined) === (tenantId === undefined)) throw new ExitError("Give --key-id or --tenant-id.", 2);
  if (keyId !== undefined && env !== undefined)
    throw new ExitError("--env is for --tenant-id: a key has one environment.", 2);
  return `/v1/${keyId === undefined ? "tenants" : "keys"}/${encodeURIComponent(keyId ?? tenantId ?? "")}/quotas`;
}

function grantsPath(options: QuotaOptions): string {
  if (options.quotaId === undefined) throw new ExitError("Missing: --quota-id.", 2);
  return `${pathOf(options)}/${encodeURIComponent(options.quotaId)}/grants`;
}

async function readList(options: QuotaOptions, path: string, columns: readonly string[]): Promise<void> {
  const { env, limit, cursor } = options;
  await sendListRequest({ method: "GET", path, query: { env, limit, cursor } }, options, (text) => {
    if (options.json) return print(text.trimEnd());
    const list = JSON.parse(text) as List;
    const quiet = list.data.map(({ id }) => String(id)).join("\n");
    printResult(options, { json: list, quiet, human: listText(list, columns) });
  });
}

async function grant(options: QuotaOptions): Promise<void> {
  if (options.units === undefined) throw new ExitError("Missing: --units.", 2);
  const units = Number(options.units);
  if (!Number.isInteger(units)) throw new ExitError("--units must be a whole number.", 2);
  const { env, expiresAt, reason, reference } = options;
  const body = {
    units,
    ...(env !== undefined && { env }),
    ...(expiresAt !== undefined && { expires_at: expiresAt }),
    ...(reason !== undefined && { reason }),
    ...(reference !== undefined && { reference }),
  };
  const idempotencyKey = options.idempotencyKey;
  const { text, headers } = await sendRequest(
    { method: "POST", path: grantsPath(options), body, idempotencyKey },
    options,
  );
  if (options.json) return print(text.trimEnd());
  const granted = JSON.parse(text) as Fields;
  const isRepeated = headers["idempotent-replayed"] === "true";
  const done = isRepeated ? "Granted before: nothing was added." : `Granted ${units} units.`;
  const human = `${done}\n${recordTable(granted)}`;
  printResult(options, { json: granted, quiet: String(granted.id), human });
}

function addVerb(quota: Command, verb: string, description: string, more: Examples): Command {
  const command = quota.command(verb).description(description);
  command.option("--key-id <value>", "quotas of this API key");
  command.option("--tenant-id <value>", "quotas of this tenant");
  command.option("--env <value>", "environment of a tenant's balance; live by default");
  outputFlags(command, "print only the ids");
  targetFlags(command);
  return command.addHelpText("after", examples(more));
}

export function addTo(program: Command): void {
  const quota = addApiCommands(program, "quota");
  addVerb(quota, "show", "Show the balances of the quotas of an API key or a tenant.", [
    "keyrack quota show --tenant-id ID",
    "keyrack quota show --key-id ID --json",
  ]).action((options: QuotaOptions) => readList(options, pathOf(options), BALANCE));
  addVerb(quota, "grants", "List the newest grants of a quota.", [
    "keyrack quota grants --tenant-id ID --quota-id calls",
    "keyrack quota grants --key-id ID --quota-id calls --json",
  ])
    .option("--quota-id <value>", "id of the quota; required")
    .option("--limit <integer>", "rows on a page; 50 by default")
    .option("--cursor <value>", "next_cursor of the previous page")
    .action((options: QuotaOptions) => readList(options, grantsPath(options), GRANT));
  addVerb(quota, "grant", "Grant extra units on top of a quota.", [
    "keyrack quota grant --tenant-id ID --quota-id calls --units 10000 --reference invoice-17",
    "keyrack quota grant --key-id ID --quota-id calls --units 500 --expires-at 2027-01-01T00:00:00Z",
  ])
    .option("--quota-id <value>", "id of the quota; required")
    .option("--units <integer>", "units to grant; required")
    .option("--expires-at <value>", "when the units expire; never by default")
    .option("--reason <value>", "reason, stored with the grant")
    .option(
      "--reference <value>",
      "your id for this grant, such as an invoice number; the same grant sent again has no effect",
    )
    .option("--idempotency-key <key>", "makes retries safe: the same key returns the same response")
    .action(grant);
}
