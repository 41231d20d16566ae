// `keyrack openapi`.
import type { Command } from "commander";
import { examples, print } from "../ui/output.ts";

export function addTo(program: Command): void {
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
      print(JSON.stringify(await openApiDocument(endpoints), null, options.quiet ? 0 : 2));
    });
}
