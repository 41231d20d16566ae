// Loads the settings. Precedence, lowest first: defaults, keyrack.toml, environment, flags. Unknown names in
// keyrack.toml are errors. Of unknown KEYRACK_* variables only those that look misspelt are: other programs may use the
// prefix.
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parse as parseToml, TomlError } from "smol-toml";
import { editDistance, suggestion } from "./nearest.ts";
import { BadSetting, envOf, settingNames, settingsTable, type SettingName, type Settings } from "./settings.ts";
import { fileDistrust, requireTrustedDataDir } from "./trusted-path.ts";

/** Settings as they are written in the environment or as flags. */
export type SettingTexts = Partial<Record<SettingName, string>>;

type Source = "default" | "file" | "environment" | "flag";
export type Loaded = {
  settings: Settings;
  raw: Record<SettingName, { value: string; source: Source }>;
  warnings: string[];
};

/** Variables of the CLI and of `keyrack ephemeral`, which name an instance: known, but not settings of the server. */
export const CLIENT_ENV: readonly string[] = [
  "KEYRACK_URL",
  "KEYRACK_SECRET_KEY",
  "KEYRACK_TEST_SECRET_KEY",
  "KEYRACK_VERIFY_KEY",
  "KEYRACK_API_KEY",
  "KEYRACK_SESSION_TOKEN",
  "KEYRACK_PROFILE",
  "KEYRACK_PROJECT_ID",
  "KEYRACK_TENANT_ID",
  "KEYRACK_WORKSPACE_ID",
  "KEYRACK_MAIL_DIR",
];

type LoadInput = {
  env: Record<string, string | undefined>;
  flags?: SettingTexts;
  configFile?: string | undefined;
  cwd?: string;
};

export function loadSettings({ env, flags = {}, configFile, cwd = process.cwd() }: LoadInput): Loaded {
  const warnings: string[] = [];
  const problems: string[] = [];
  const path = namedConfigFile(env, configFile, cwd) ?? guessConfigFile(env, flags, cwd);
  const file = path ? readConfigFile(path, problems) : {};
  checkEnvironment(env, { warnings, problems });
  const raw = {} as Loaded["raw"];
  const settings: Record<string, unknown> = {};
  for (const name of settingNames) {
    const { defaultText, parse } = settingsTable[name];
    const envName = envOf(name);
    const fromEnv = isServiceLink(envName, env[envName], warnings) ? undefined : env[envName];
    const candidates: [string | undefined, Source][] = [
      [flags[name], "flag"],
      [fromEnv, "environment"],
      [file[name], "file"],
      [defaultText, "default"],
    ];
    const [value = "", source] = candidates.find(([text]) => text !== undefined && text !== "") ?? ["", "default"];
    raw[name] = { value, source };
    try {
      settings[name] = parse(value);
    } catch (error) {
      problems.push(`${sourceName(name, source, path)}: ${(error as Error).message}`);
    }
  }
  if (problems.length > 0) throw new BadSetting(problems.map(toSentence).join(" "));
  if (raw.data_dir.source === "default") requireTrustedDataDir(resolve(cwd, raw.data_dir.value));
  return { settings: settings as Settings, raw, warnings };
}

const toSentence = (problem: string): string => (/[.?]$/.test(problem) ? problem : `${problem}.`);

function sourceName(name: SettingName, source: Source, file: string | null): string {
  if (source === "flag") return `--${name.replaceAll("_", "-")}`;
  return source === "file" ? `${file}: ${name}` : envOf(name);
}

/** The settings file that --config or KEYRACK_CONFIG names. */
export function namedConfigFile(env: LoadInput["env"], named: string | undefined, cwd = process.cwd()): string | null {
  const path = named ?? env.KEYRACK_CONFIG;
  return path ? resolve(cwd, path) : null;
}

function guessConfigFile(env: LoadInput["env"], flags: NonNullable<LoadInput["flags"]>, cwd: string): string | null {
  const dataDir = flags.data_dir ?? env.KEYRACK_DATA_DIR ?? settingsTable.data_dir.defaultText;
  const file = [cwd, resolve(cwd, dataDir)].map((dir) => join(dir, "keyrack.toml")).find((each) => existsSync(each));
  const reason = file && fileDistrust(file);
  if (reason) throw new BadSetting(`${file} is not used: ${reason}. Name it with --config ${file} if you trust it.`);
  return file ?? null;
}

function readConfigFile(file: string, problems: string[]): SettingTexts {
  let parsed: Record<string, unknown>;
  try {
    parsed = parseToml(readFileSync(file, "utf8"));
  } catch (error) {
    const at = error instanceof TomlError ? `:${error.line}:${error.column}` : "";
    throw new BadSetting(`${file}${at}: ${(error as Error).message.split("\n")[0]}`);
  }
  const result: SettingTexts = {};
  for (const [key, value] of Object.entries(parsed)) {
    const name = settingNames.find((candidate) => candidate === key);
    if (!name) problems.push(`${file}: unknown setting "${key}"${suggestion(key, settingNames)}`);
    else if (!["string", "number", "boolean"].includes(typeof value))
      problems.push(`${file}: ${key} must be a string, a number or a boolean`);
    else result[name] = typeof value === "boolean" ? (value ? "on" : "off") : String(value);
  }
  return result;
}

/** Kubernetes and Docker links set KEYRACK_PORT=tcp://… where a service is named keyrack. */
function isServiceLink(envName: string, value: string | undefined, warnings: string[]): boolean {
  if (envName !== "KEYRACK_PORT" || !value?.startsWith("tcp://")) return false;
  warnings.push(
    "KEYRACK_PORT is ignored: it holds a tcp:// address, which Kubernetes sets for a service named keyrack. Rename the service.",
  );
  return true;
}

/** The same for names that differ only in the order of their words. */
const wordsOf = (name: string): string => name.split("_").toSorted().join("_");

function checkEnvironment(env: LoadInput["env"], found: { warnings: string[]; problems: string[] }): void {
  const known: string[] = [...settingNames.map(envOf), ...CLIENT_ENV, "KEYRACK_CONFIG"];
  for (const name of Object.keys(env)) {
    if (!name.startsWith("KEYRACK_") || name.startsWith("KEYRACK_TEST_") || known.includes(name)) continue;
    const near = known.find((other) => editDistance(name, other) <= 2 || wordsOf(name) === wordsOf(other));
    if (near) found.problems.push(`Unknown setting ${name}. Did you mean ${near}?`);
    else found.warnings.push(`Unknown environment variable ${name} is ignored.`);
  }
}
