// `keyrack version` and `keyrack openapi`.
import type { Command } from "commander";
import { VERSION } from "../../platform/version.ts";
import { out } from "../ui/output.ts";

export function addVersionCommand(program: Command): void {
  program
    .command("version")
    .description("Print the version.")
    .option("--json", "print one JSON document")
    .option("--quiet", "print only the version")
    .addHelpText("after", "\nExamples:\n  keyrack version\n  keyrack version --json")
    .action((options: { json?: true }) => {
      out(options.json ? JSON.stringify({ version: VERSION, node: process.versions.node }) : VERSION);
    });
}

export function addOpenapiCommand(program: Command): void {
  program
    .command("openapi")
    .description("Print this API as an OpenAPI 3.1 document.")
    .option("--json", "the document is JSON anyway")
    .option("--quiet", "no line breaks")
    .addHelpText("after", "\nExamples:\n  keyrack openapi > openapi.json\n  keyrack openapi --quiet | jq .info")
    .action(async (options: { quiet?: true }) => {
      const [{ openApiDocument }, { endpoints }] = await Promise.all([
        import("../../http/openapi.ts"),
        import("../../api/index.ts"),
      ]);
      out(JSON.stringify(openApiDocument(endpoints), null, options.quiet ? 0 : 2));
    });
}
