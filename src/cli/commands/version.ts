// `keyrack version`.
import type { Command } from "commander";
import { VERSION } from "../../platform/version.ts";
import { ExitError, examples, outputFlags, print } from "../ui/output.ts";

export function addTo(program: Command): void {
  outputFlags(program.command("version"), "print only the version")
    .option("--notices", "print the licences of the software inside")
    .addHelpText("after", examples(["keyrack version --json", "keyrack version --notices | less"]))
    .action(async (options: { json?: true; notices?: true }) => {
      if (options.notices) print((await noticesText()).trimEnd());
      else print(options.json ? JSON.stringify(await versionFacts()) : VERSION);
    });
}

async function versionFacts(): Promise<object> {
  const [{ buildInfo }, { schemaVersion }] = await Promise.all([
    import("../../platform/build-info.ts"),
    import("../../store/schema/migrate.ts"),
  ]);
  const { commit, release } = buildInfo();
  const target = `${process.platform}-${process.arch}`;
  return { version: VERSION, node: process.versions.node, commit, target, schema: schemaVersion(), release };
}

async function noticesText(): Promise<string> {
  const { readText } = await import("../../platform/packaged-files.ts");
  const { isSea } = await import("node:sea");
  if (!isSea()) throw new ExitError("Only the binary contains the notices. Run npm run build, then dist/keyrack.", 1);
  return readText("THIRD_PARTY_NOTICES.txt");
}
