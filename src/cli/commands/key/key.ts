// `keyrack key`: the one-call verbs; `create --from-csv` for many at once; `revoke --wait` shows the nodes acknowledging.
import type { Command } from "commander";
import type { Verb } from "../../api/command-spec.ts";
import { addVerbs, askOf, requireFlags, runVerb, type VerbOptions } from "../../api/generated.ts";

type CreateOptions = VerbOptions & { fromCsv?: string; out?: string; restart?: true };

export function addKeyCommands(program: Command): void {
  addVerbs(program, "key", {
    create: {
      lenient: true,
      flags: (command) =>
        command
          .option(
            "--from-csv <file>",
            "make a key for every row; columns are named like the fields, flags fill the rest",
          )
          .option("--out <file>", "with --from-csv: where the new keys go (0600; default FILE.keys.csv)")
          .option("--restart", "with --from-csv: forget how far an earlier run came"),
      run: (verb, _args, options) => create(verb, options),
      examples: [
        "keyrack key create --project-id $KEYRACK_PROJECT_ID --tenant-id $KEYRACK_TENANT_ID --env live --quiet",
        "keyrack key create --from-csv keys.csv --project-id $KEYRACK_PROJECT_ID --env live",
      ],
    },
    revoke: {
      run: async (verb, args, options) => {
        if (!options.wait) return runVerb("key", "revoke", verb, args, options);
        const { revokeAndWait } = await import("./revoke-wait.ts");
        return revokeAndWait(verb, args, options);
      },
      examples: ['keyrack key revoke ID --reason "left the company"', "keyrack key revoke ID --wait"],
    },
  });
}

async function create(verb: Verb, options: CreateOptions): Promise<void> {
  if (!options.fromCsv) {
    requireFlags(verb, options);
    return runVerb("key", "create", verb, [], options);
  }
  const fixed = askOf(verb, [], options).body as Record<string, unknown>;
  const { runBulk } = await import("../bulk/bulk.ts");
  const keep = options.out ?? `${options.fromCsv}.keys.csv`;
  await runBulk({ file: options.fromCsv, verb, what: "keys", fixed, options, keep });
}
