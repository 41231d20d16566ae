// `keyrack version` and `keyrack openapi`.
import type { Command } from "commander";
import { VERSION } from "../../platform/version.ts";
import { examples, outputFlags, print } from "../ui/output.ts";

export function addVersionCommand(program: Command): void {
  outputFlags(program.command("version"), "print only the version")
    .addHelpText("after", examples(["keyrack version", "keyrack version --json"]))
    .action((options: { json?: true }) => {
      print(options.json ? JSON.stringify({ version: VERSION, node: process.versions.node }) : VERSION);
    });
}

export function addOpenapiCommand(program: Command): void {
  program
    .command("openapi")
    .option("--json", "no effect: the document is JSON")
    .option("--quiet", "print it on one line")
    .addHelpText("after", examples(["keyrack openapi > openapi.json", "keyrack openapi --quiet | jq .info"]))
    .action(async (options: { quiet?: true }) => {
      const [{ openApiDocument }, { endpoints }] = await Promise.all([
        import("../../http/openapi.ts"),
        import("../../api/index.ts"),
      ]);
      print(JSON.stringify(openApiDocument(endpoints), null, options.quiet ? 0 : 2));
    });
}
