// `keyrack key`: the generated commands, `bulk`, `find` and `lookup`; `create --from-csv` creates many.
import type { Command } from "commander";
import type { RouteOutput } from "../../../client.ts";
import type { CommandSpec } from "../../api/command-spec.ts";
import { addBulkCommand } from "./bulk.ts";
import { addFindCommand } from "./find.ts";
import { addLookupCommand } from "./lookup.ts";
import { addApiCommands } from "../../api/generated.ts";
import { buildRequest, requireFlags, runApiCommand, sendRequest, type ApiOptions } from "../../api/send.ts";
import { ApiError } from "../../api/request.ts";
import { printResponse } from "../../ui/format.ts";
import { ExitError, print } from "../../ui/output.ts";
import { reasonLines, verdictFields } from "./verdict.ts";

type CreateOptions = ApiOptions & { fromCsv?: string; out?: string; restart?: true };

export function addTo(program: Command): void {
  const key = addApiCommands(program, "key", {
    create: {
      checksRequired: true,
      flags: (command) =>
        command
          .option("--from-csv <file>", "create a key for every row; columns are named like fields, flags are defaults")
          .option("--out <file>", "with --from-csv: file for the new keys (mode 0600; default FILE.keys.csv)")
          .option("--restart", "with --from-csv: discard the progress of an earlier run"),
      run: (spec, _args, options) => create(spec, options),
    },
    show: { run: show },
  });
  addBulkCommand(key);
  addFindCommand(key);
  addLookupCommand(key);
}

async function create(spec: CommandSpec, options: CreateOptions): Promise<void> {
  if (!options.fromCsv) {
    const unused = (["out", "restart"] as const).find((name) => options[name] !== undefined);
    if (unused) throw new ExitError(`--${unused} needs --from-csv.`, 2);
    requireFlags(spec, options);
    return runApiCommand(spec, [], options);
  }
  const defaults = buildRequest(spec, [], options).body as Record<string, unknown>;
  const { importCsv } = await import("../csv-import/csv-import.ts");
  const keysFile = options.out ?? `${options.fromCsv}.keys.csv`;
  const isKeysFileNamed = options.out !== undefined;
  await importCsv({ file: options.fromCsv, spec, noun: "key", defaults, options, keysFile, isKeysFileNamed });
}

type Key = RouteOutput<"GET /v1/keys/{id}">;

async function show(spec: CommandSpec, args: string[], options: ApiOptions): Promise<void> {
  if (options.json || options.quiet) return runApiCommand(spec, args, options);
  const { last_used, verdict, ...key } = JSON.parse(await readKey(spec, args, options)) as Key;
  const place = last_used && { last_used_from: placeOf(last_used) };
  printResponse(spec, JSON.stringify({ ...key, ...place, ...(verdict && verdictFields(verdict)) }), options);
  for (const line of verdict ? reasonLines(verdict) : []) print(line);
}

/** Includes the last use by default. Earlier releases reject that `include`: retries without it. */
async function readKey(spec: CommandSpec, args: string[], options: ApiOptions): Promise<string> {
  const message = buildRequest(spec, args, options);
  if (options.include !== undefined) return (await sendRequest(message, options)).text;
  const { text } = await sendRequest({ ...message, query: { include: "last_used" } }, options).catch(
    (error: unknown) => {
      if (error instanceof ApiError && error.status === 400) return sendRequest(message, options);
      throw error;
    },
  );
  return text;
}

function placeOf({ network, user_agent, node_id }: NonNullable<Key["last_used"]>): string {
  return [network, user_agent, `node ${node_id}`].filter((part) => part !== null).join(", ");
}
