// `keyrack config show/check/example`.
import type { Command } from "commander";
import { requireConsistent } from "../../config/consistency.ts";
import { settingNames } from "../../config/load.ts";
import { fileKey, settingsTable } from "../../config/settings.ts";
import { readSettings, usageErrors } from "../settings.ts";
import { examples, outputFlags, print, table, type Examples, type OutputOptions } from "../ui/output.ts";

type Options = OutputOptions & { config?: string };

function configFlags(command: Command, quiet: string, worked: Examples): Command {
  command
    .option("--config <file>", "settings file")
    .option("--data-dir <dir>", "folder with the database, keys, mail and backups");
  return outputFlags(command, quiet).addHelpText("after", examples(worked));
}

export function addConfigCommands(program: Command): void {
  const config = program.command("config");
  configFlags(config.command("show"), "print only settings that differ from their default", [
    "keyrack config show",
    "keyrack config show --json",
  ])
    .description("Show every setting with its value and source. Secrets are hidden.")
    .action((options: Options) => show(options));
  configFlags(config.command("check"), "print nothing; use the exit code", [
    "keyrack config check",
    "keyrack config check --config /etc/keyrack.toml",
  ])
    .description("Check the settings without starting anything.")
    .action((options: Options) => check(options));
  config
    .command("example")
    .description("Print a keyrack.toml with every setting and its default.")
    .addHelpText("after", examples(["keyrack config example", "keyrack config example > keyrack.toml"]))
    .action(() => print(exampleFile()));
}

function show(options: Options): void {
  const { raw } = readSettings(options);
  const rows = settingNames.map((name) => {
    const { value, source } = raw[name];
    return { name: settingsTable[name].env, value: settingsTable[name].secret && value ? "(hidden)" : value, source };
  });
  if (options.json) return print(JSON.stringify({ object: "list", data: rows }));
  if (options.quiet) {
    for (const { name, value, source } of rows) if (source !== "default") print(`${name}=${value}`);
    return;
  }
  print(
    table([
      ["SETTING", "VALUE", "SOURCE"],
      ...rows.map(({ name, value, source }) => [name, value || "(unset)", source]),
    ]),
  );
}

function check(options: Options): void {
  const { settings, warnings } = readSettings(options);
  usageErrors(() => requireConsistent(settings));
  if (options.json) return print(JSON.stringify({ ok: true, warnings }));
  if (options.quiet) return;
  for (const warning of warnings) print(`warning: ${warning}`);
  print("The settings are valid.");
}

function exampleFile(): string {
  const blocks = settingNames.map((name) => {
    const { description, defaultText, kind } = settingsTable[name];
    const numeric = ["port", "count", "ms", "wait", "password_min", "zero_or_count", "zero_or_megabytes"].includes(
      kind,
    );
    return `# ${description}\n#${fileKey(name)} = ${numeric ? defaultText : JSON.stringify(defaultText)}\n`;
  });
  return [
    "# keyrack.toml: every setting with its default. Environment variables and flags override this file.\n",
    ...blocks,
  ].join("\n");
}
