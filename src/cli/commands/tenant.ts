// `keyrack tenant`: the one-call verbs, and `import` for many at once.
import type { Command } from "commander";
import { bulkFlags, type BulkOptions } from "./bulk/flags.ts";
import { addVerbs, verbOf } from "../api/generated.ts";

export function addTenantCommands(program: Command): void {
  const tenant = addVerbs(program, "tenant");
  bulkFlags(tenant.command("import"))
    .description("Make a tenant for every row of a CSV file: external_id, and optionally name and meta (JSON).")
    .argument("<file>", "CSV file; its first row names the columns")
    .addHelpText(
      "after",
      "\nA second run goes on where the first one stopped, and never makes a tenant twice.\n\nExamples:\n  keyrack tenant import customers.csv\n  keyrack tenant import customers.csv --json",
    )
    .action(async (file: string, options: BulkOptions) => {
      const { runBulk } = await import("./bulk/bulk.ts");
      await runBulk({ file, verb: verbOf("tenant", "create"), what: "tenants", fixed: {}, options });
    });
}
