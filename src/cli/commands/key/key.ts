// `keyrack key`: the generated commands and `bulk`; `create --from-csv` creates many; `revoke --wait` waits for all nodes.
import type { Command } from "commander";
import { waitable } from "../../api/waitable.ts";
import type { CommandSpec } from "../../api/command-spec.ts";
import { addBulkCommand } from "./bulk.ts";
import { addApiCommands, buildRequest, requireFlags, runApiCommand, type ApiOptions } from "../../api/generated.ts";

type CreateOptions = ApiOptions & { fromCsv?: string; out?: string; restart?: true };

export function addKeyCommands(program: Command): void {
  const key = addApiCommands(program, "key", {
    create: {
      checksRequired: true,
      flags: (command) =>
        command
          .option("--from-csv <file>", "create a key for every row; columns are named like fields, flags are defaults")
          .option("--out <file>", "with --from-csv: file for the new keys (mode 0600; default FILE.keys.csv)")
          .option("--restart", "with --from-csv: discard the progress of an earlier run"),
      run: (spec, _args, options) => create(spec, options),
      examples: [
        "keyrack key create --project-id $KEYRACK_PROJECT_ID --tenant-id $KEYRACK_TENANT_ID --env live --quiet",
        "keyrack key create --from-csv keys.csv --project-id $KEYRACK_PROJECT_ID --env live",
      ],
    },
    revoke: waitable("key", "revoke", [
      'keyrack key revoke ID --reason "left the company"',
      "keyrack key revoke ID --wait",
    ]),
    disable: waitable("key", "disable", ['keyrack key disable ID --reason "unpaid"', "keyrack key disable ID --wait"]),
    enable: waitable("key", "enable", ["keyrack key enable ID", "keyrack key enable ID --wait"]),
  });
  addBulkCommand(key);
}

async function create(spec: CommandSpec, options: CreateOptions): Promise<void> {
  if (!options.fromCsv) {
    requireFlags(spec, options);
    return runApiCommand("key", "create", spec, [], options);
  }
  const defaults = buildRequest(spec, [], options).body as Record<string, unknown>;
  const { runBulk } = await import("../bulk/bulk.ts");
  const keysFile = options.out ?? `${options.fromCsv}.keys.csv`;
  await runBulk({ file: options.fromCsv, spec, noun: "key", defaults, options, keysFile });
}
