// `keyrack key bulk`: one action on every key that matches. It shows what matches and asks before it changes anything.
import { Argument, InvalidArgumentError, type Command } from "commander";
import { targetFlags } from "../../api/target.ts";
import { examples, outputFlags } from "../../ui/output.ts";
import { FIELDS, FILTERS, type KeyBulkOptions } from "./bulk-flags.ts";
import { BULK_ACTIONS, type BulkAction } from "../../../kernel/bulk-actions.ts";

/** Accepts `cap-expiry` too: flags and commands have dashes. */
function parseAction(text: string): BulkAction {
  const action = BULK_ACTIONS.find((each) => each === text.replaceAll("-", "_"));
  if (!action) throw new InvalidArgumentError(`Allowed choices are ${BULK_ACTIONS.join(", ")}.`);
  return action;
}

export function addBulkCommand(key: Command): void {
  const command = key
    .command("bulk")
    .description(
      "Revoke, disable, enable, rotate or cap the expiry of every key that matches. Shows the matches and asks for confirmation first.",
    )
    .addArgument(new Argument("<action>", "what to do").choices(BULK_ACTIONS).argParser(parseAction));
  for (const flag of [...FILTERS, ...FIELDS]) command.addOption(flag);
  command
    .option("--dry-run", "only show which keys match")
    .option("--yes", "do not ask for confirmation")
    .option("--wait", "at the end, wait until every live node has the change")
    .option("--out <file>", "rotate: CSV file for the new keys (mode 0600); required")
    .option("--resume <file>", "continue an interrupted run from its keyrack-bulk-ID.json");
  targetFlags(outputFlags(command, "print only the number of keys"))
    .addHelpText(
      "after",
      examples([
        'keyrack key bulk revoke --tenant-id ID --reason "contract ended" --wait',
        "keyrack key bulk rotate --project-id ID --unused-since 2026-01-01T00:00:00Z --out keys.csv --yes",
      ]),
    )
    .action(async (action: BulkAction, options: KeyBulkOptions) => {
      const { runKeyBulk } = await import("./bulk-run.ts");
      await runKeyBulk(action, options);
    });
}
