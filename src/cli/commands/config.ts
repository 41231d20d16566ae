// `keyrack config show/check/example`.
import type { Command } from "commander";
import { requireConsistent } from "../../config/consistency.ts";
import { envOf, settingNamesByGroup, settingsTable, type SettingName } from "../../config/settings.ts";
import { readSettings } from "../settings.ts";
import { examples, outputFlags, print, table, type Examples, type OutputOptions } from "../ui/output.ts";

type Options = OutputOptions & { config?: string };

function configFlags(command: Command, quiet: string, worked: Examples): Command {
  command
    .option("--config <file>", "settings file")
    .option("--data-dir <dir>", "folder with the database, keys, mail and backups");
  return outputFlags(command, quiet).addHelpText("after", examples(worked));
}

export function addTo(program: Command): void {
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
  const rowOf = (name: SettingName) => {
    const { value, source } = raw[name];
    return { name: envOf(name), value: settingsTable[name].secret && value ? "(hidden)" : value, source };
  };
  const groups = settingNamesByGroup.map(({ title, names }) => ({ title, rows: names.map(rowOf) }));
  const rows = groups.flatMap((group) => group.rows);
  if (options.json) return print(JSON.stringify({ object: "list", data: rows }));
  if (options.quiet) {
    for (const { name, value, source } of rows) if (source !== "default") print(`${name}=${value}`);
    return;
  }
  const shown = groups.flatMap((group) => [
    [""],
    [`${group.title}:`],
    ...group.rows.map(({ name, value, source }) => [`  ${name}`, value || "(unset)", source]),
  ]);
  print(table([["SETTING", "VALUE", "SOURCE"], ...shown]));
}

function check(options: Options): void {
  const { settings, warnings } = readSettings(options);
  requireConsistent(settings);
  if (options.json) return print(JSON.stringify({ ok: true, warnings }));
  if (options.quiet) return;
  for (const warning of warnings) print(`warning: ${warning}`);
  print("The settings are valid.");
}

function exampleFile(): string {
  const blockOf = (name: SettingName): string => {
    const { description, defaultText } = settingsTable[name];
    const value = /^\d+$/.test(defaultText) ? defaultText : JSON.stringify(defaultText);
    return `# ${description}\n#${name} = ${value}\n`;
  };
  return [
    "# keyrack.toml: every setting with its default. Environment variables and flags override this file.\n",
    ...settingNamesByGroup.flatMap(({ title, names }) => [`## ${title}\n`, ...names.map(blockOf)]),
  ].join("\n");
}
