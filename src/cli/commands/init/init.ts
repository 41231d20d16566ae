// `keyrack init`: guided set-up. Every answer can also be a flag; every connection is tried before anything is written.
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Command } from "commander";
import type { SettingTexts } from "../../../config/load.ts";
import { serverUrl } from "../../../config/server-url.ts";
import { settingsTable, type Settings } from "../../../config/settings.ts";
import { createFileDurably, writeFileAtomically } from "../../../platform/fsync.ts";
import { silentLog } from "../../../platform/log.ts";
import { readSettings } from "../../settings.ts";
import { shellQuote } from "../../ui/command-name.ts";
import { ExitError, examples, fileError, isTerminal, outputFlags, print, type OutputOptions } from "../../ui/output.ts";
import { tryConnections } from "../../connections.ts";

type InitOptions = OutputOptions & {
  dataDir?: string;
  databaseUrl?: string;
  redisUrl?: string;
  mailUrl?: string;
  mailFrom?: string;
  publicUrl?: string;
  host?: string;
  port?: string;
  signUp?: string;
  unverifiedLogin?: string;
  workspaceName?: string;
  workspaceSlug?: string;
  save?: true;
  profile?: string;
  out?: string;
  force?: true;
  yes?: true;
};

const INIT_SETTINGS = [
  "data_dir",
  "database_url",
  "redis_url",
  "mail_url",
  "mail_from",
  "public_url",
  "host",
  "port",
  "sign_up",
  "unverified_login",
] as const;
/** Stricter than the defaults of a server without a file, which stay as they were for existing ones. */
const NEW_INSTANCE: SettingTexts = { sign_up: "invite", unverified_login: "refuse" };

export function addTo(program: Command): void {
  const command = outputFlags(program.command("init"), "print only the file's path, or the new secret key")
    .description("Set up an instance: asks for what it needs, tries every connection and writes keyrack.toml.")
    .option("--yes", "ask nothing: use flags and defaults");
  for (const name of INIT_SETTINGS)
    command.option(`--${name.replaceAll("_", "-")} <value>`, settingsTable[name].description);
  command
    .option("--workspace-name <name>", "also create the first workspace")
    .option("--workspace-slug <slug>", "slug of that workspace")
    .option("--save", "save the workspace's secret key in a profile")
    .option("--profile <name>", "profile to save it in (KEYRACK_PROFILE)")
    .option("--out <file>", "file to write", "keyrack.toml")
    .option("--force", "overwrite an existing file")
    .addHelpText(
      "after",
      examples([
        "keyrack init",
        "keyrack init --yes --data-dir /var/lib/keyrack --workspace-name Acme --workspace-slug acme",
      ]),
    )
    .action((options: InitOptions) => init(options));
}

function answersFromFlags(options: InitOptions): SettingTexts {
  const flags = options as Record<string, unknown>;
  const entries = INIT_SETTINGS.map((name) => [
    name,
    flags[name.replace(/_(\w)/g, (_a, c: string) => c.toUpperCase())],
  ]);
  return { ...NEW_INSTANCE, ...Object.fromEntries(entries.filter(([, value]) => typeof value === "string")) };
}

async function init(options: InitOptions): Promise<void> {
  const file = resolve(options.out ?? "keyrack.toml");
  if (existsSync(file) && !options.force)
    throw new ExitError(`${file} already exists. Use --force to overwrite it, or --out for another file.`, 2);
  if (!options.yes && !isTerminal())
    throw new ExitError("Cannot prompt without a terminal. Give the answers as flags, with --yes.", 2);
  if (options.yes && options.save && !workspaceFromFlags(options))
    throw new ExitError("--save needs --workspace-name and --workspace-slug.", 2);
  const wizard = options.yes ? undefined : await import("./wizard.ts");
  const answers = wizard ? await wizard.askSettings(answersFromFlags(options)) : answersFromFlags(options);
  // The same parsers as at every start; neither the environment nor a keyrack.toml here may change the result.
  const { settings } = readSettings({}, { env: {}, flags: answers, cwd: "/nonexistent" });
  await requireConnections(settings, wizard?.showConnection);
  const workspace = wizard ? await wizard.askWorkspace(options) : workspaceFromFlags(options);
  const { profileToSave, requireReplaceable, saveNewKey } = await import("../../api/profiles.ts");
  const url = settings.public_url ?? serverUrl(settings, settings.port);
  const saved = workspace && options.save ? profileToSave(options.profile) : undefined;
  if (saved) requireReplaceable(saved, url);
  writeConfig(file, toToml({ ...answers, ...absolutePaths(settings) }), options.force === true);
  const key = workspace ? await createWorkspace(settings, workspace) : undefined;
  printSummary(file, settings, key, options);
  if (workspace && key && saved) saveNewKey(saved.name, { url, secret_key: key, about: `workspace ${workspace.name}` });
}

function workspaceFromFlags({ workspaceName: name, workspaceSlug: slug }: InitOptions) {
  if (!name && !slug) return undefined;
  if (!name || !slug) throw new ExitError("--workspace-name and --workspace-slug must be given together.", 2);
  return { name, slug };
}

async function requireConnections(
  settings: Settings,
  report: ((name: string, problem: string | null) => void) | undefined,
): Promise<void> {
  for (const { name, problem } of await tryConnections(settings)) {
    report?.(name, problem);
    if (problem) throw new ExitError(`Cannot connect to ${name}: ${problem}. Nothing was written.`, 3);
  }
}

/** A server that is started with --config may run in another folder. */
function absolutePaths({ data_dir, database_url, mail_url }: Settings): SettingTexts {
  return {
    data_dir: resolve(data_dir),
    ...(database_url.kind === "sqlite" && { database_url: `sqlite:${resolve(database_url.file)}` }),
    ...(mail_url.kind === "file" && mail_url.dir && { mail_url: `file:${resolve(mail_url.dir)}` }),
  };
}

function toToml(answers: SettingTexts): string {
  const lines = INIT_SETTINGS.filter((name) => answers[name]).map((name) => {
    const value = answers[name] ?? "";
    return `${name} = ${name === "port" ? value : JSON.stringify(value)}`;
  });
  return `# Written by keyrack init. For all settings run: keyrack config example\n${lines.join("\n")}\n`;
}

/** Never writes into an existing file: that would keep the old mode, and the URLs may contain passwords. */
function writeConfig(file: string, text: string, force: boolean): void {
  try {
    if (force) writeFileAtomically(file, text);
    else createFileDurably(file, text);
  } catch (error) {
    throw fileError("write", file, error);
  }
}

/** Starts the instance for one request, because no server is running yet. Returns the workspace's secret key. */
async function createWorkspace(settings: Settings, workspace: { name: string; slug: string }): Promise<string> {
  const [{ startInstance }, { fetchJson }] = await Promise.all([
    import("../../../server/start.ts"),
    import("../../api/request.ts"),
  ]);
  const app = await startInstance({ settings: { ...settings, host: "127.0.0.1", port: 0 }, log: silentLog });
  try {
    const target = { url: app.url, bearer: app.bootstrap.token };
    const { secret_key } = await fetchJson(target, "POST /v1/workspaces", { body: workspace });
    return secret_key.key;
  } finally {
    await app.stop();
  }
}

function printSummary(file: string, settings: Settings, key: string | undefined, options: InitOptions): void {
  if (options.json)
    return print(
      JSON.stringify({ object: "init", file, data_dir: resolve(settings.data_dir), secret_key: key ?? null }),
    );
  if (options.quiet) return print(key ?? file);
  print(`Wrote ${file}.`);
  if (key) print(`Secret key of the workspace:\n  ${key}\nSave this key now. It will not be shown again.`);
  print(
    `Start the server: keyrack serve${file === join(process.cwd(), "keyrack.toml") ? "" : ` --config ${shellQuote(file)}`}`,
  );
}
