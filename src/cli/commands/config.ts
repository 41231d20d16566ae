// `keyrack config show/check/example`.
import type { Command } from "commander";
import { BadSetting, fileKey, loadSettings, settingsTable, type SettingName } from "../../config/settings.ts";
import { ExitError, out, settingFlags, table } from "../ui/output.ts";

const names = Object.keys(settingsTable) as SettingName[];

export function addConfigCommands(program: Command): void {
  const config = program.command("config").description("Show and check settings.");
  config
    .command("show")
    .description("Every setting with its value and where it comes from. Secrets are hidden.")
    .option("--config <file>", "settings file")
    .option("--data-dir <dir>", "folder that holds everything")
    .option("--json", "one JSON document")
    .option("--quiet", "only what differs from its default")
    .addHelpText("after", "\nExamples:\n  keyrack config show\n  keyrack config show --json")
    .action((options: Options) => show(options));
  config
    .command("check")
    .description("Check the settings without starting anything.")
    .option("--config <file>", "settings file")
    .option("--data-dir <dir>", "folder that holds everything")
    .option("--json", "one JSON document")
    .option("--quiet", "print nothing; the exit code tells")
    .addHelpText("after", "\nExamples:\n  keyrack config check\n  keyrack config check --config /etc/keyrack.toml")
    .action((options: Options) => check(options));
  config
    .command("example")
    .description("A keyrack.toml with every setting and its default.")
    .addHelpText("after", "\nExamples:\n  keyrack config example\n  keyrack config example > keyrack.toml")
    .action(() => out(example()));
}

type Options = { config?: string; json?: true; quiet?: true };

function load(options: Options) {
  try {
    return loadSettings({ env: process.env, flags: settingFlags(options), configFile: options.config });
  } catch (error) {
    if (error instanceof BadSetting) throw new ExitError(error.message, 2);
    throw error;
  }
}

function show(options: Options): void {
  const { raw } = load(options);
  const rows = names.map((name) => {
    const { value, source } = raw[name];
    return { name: settingsTable[name].env, value: settingsTable[name].secret && value ? "(hidden)" : value, source };
  });
  if (options.json) return out(JSON.stringify({ object: "list", data: rows }));
  if (options.quiet) {
    for (const { name, value, source } of rows) if (source !== "default") out(`${name}=${value}`);
    return;
  }
  out(
    table([
      ["SETTING", "VALUE", "SOURCE"],
      ...rows.map(({ name, value, source }) => [name, value || "(unset)", source]),
    ]),
  );
}

function check(options: Options): void {
  const { warnings } = load(options);
  if (options.json) return out(JSON.stringify({ ok: true, warnings }));
  if (options.quiet) return;
  for (const warning of warnings) out(`warning: ${warning}`);
  out("The settings are good.");
}

export function example(): string {
  const blocks = names.map((name) => {
    const { about, fallback, kind } = settingsTable[name];
    const numeric = ["port", "count", "ms", "wait", "password_min", "zero_or_count"].includes(kind);
    return `# ${about}\n# ${fileKey(name)} = ${numeric ? fallback : JSON.stringify(fallback)}\n`;
  });
  return [
    "# keyrack.toml: every setting with its default. Environment variables and flags win over this file.\n",
    ...blocks,
  ].join("\n");
}
