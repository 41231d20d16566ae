// `keyrack tenant`: the generated commands, and `import` to create many from a CSV file.
import type { Command } from "commander";
import { addApiCommands, commandSpec } from "../api/generated.ts";
import { examples } from "../ui/output.ts";
import { csvFlags, type BulkOptions } from "./csv-import/flags.ts";

export function addTo(program: Command): void {
  const tenant = addApiCommands(program, "tenant");
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
