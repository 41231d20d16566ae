// `keyrack tenant`: the generated commands; `update|suspend|resume --wait` wait for all nodes; and `import` to create
// many from a CSV file.
import type { Command } from "commander";
import { addApiCommands, commandSpec } from "../api/generated.ts";
import { waitable } from "../api/waitable.ts";
import { examples } from "../ui/output.ts";
import { csvFlags, type BulkOptions } from "./csv-import/flags.ts";

export function addTo(program: Command): void {
  const tenant = addApiCommands(program, "tenant", {
    update: waitable("update", [
      "keyrack tenant update ID --plan-id PLAN --wait",
      "keyrack tenant update ID --allowed-cidrs 203.0.113.0/24 --wait",
    ]),
    suspend: waitable("suspend", ['keyrack tenant suspend ID --reason "unpaid"', "keyrack tenant suspend ID --wait"]),
    resume: waitable("resume", ["keyrack tenant resume ID", "keyrack tenant resume ID --wait"]),
  });
  csvFlags(tenant.command("import"))
    .description(
      "Create a tenant for every row of a CSV file. Columns: external_id, and optionally name and meta (JSON).",
    )
    .argument("<file>", "CSV file; the first row names the columns")
    .addHelpText(
      "after",
      `\nA second run resumes where the first one stopped and creates no tenant twice.\n${examples([
        "keyrack tenant import customers.csv",
        "keyrack tenant import customers.csv --json",
      ])}`,
    )
    .action(async (file: string, options: BulkOptions) => {
      const { importCsv } = await import("./csv-import/csv-import.ts");
      const spec = commandSpec("tenant", "create");
      await importCsv({ file, spec, noun: "tenant", defaults: {}, options, unique: "external_id" });
    });
}
