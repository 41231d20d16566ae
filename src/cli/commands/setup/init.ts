// `keyrack init`: the guided set-up. Every answer is also a flag; every connection is tried before anything is written.
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Command } from "commander";
import {
  BadSetting,
  fileKey,
  loadSettings,
  settingsTable,
  type SettingName,
  type Settings,
} from "../../../config/settings.ts";
import { tryConnections } from "./connections.ts";
import { ExitError, isTerminal, out } from "../../ui/output.ts";
import { outputFlags, type OutputOptions } from "../../api/target.ts";

type InitOptions = OutputOptions & {
  dataDir?: string;
  databaseUrl?: string;
  redisUrl?: string;
  mailUrl?: string;
  mailFrom?: string;
  publicUrl?: string;
  host?: string;
  port?: string;
  workspaceName?: string;
  workspaceSlug?: string;
  save?: true;
  out?: string;
  force?: true;
  yes?: true;
};
type Answers = Partial<Record<SettingName, string>>;

const ASKED = ["data_dir", "database_url", "redis_url", "mail_url", "mail_from", "public_url", "host", "port"] as const;

export function addInitCommand(program: Command): void {
  const command = outputFlags(program.command("init"), "print only the file's name, or the key with a workspace")
    .description("Set up an instance: asks what it needs, tries every connection, writes keyrack.toml.")
    .option("--yes", "ask nothing: flags and defaults are the answers");
  for (const name of ASKED) command.option(`--${name.replaceAll("_", "-")} <value>`, settingsTable[name].about);
  command
    .option("--workspace-name <name>", "also make the first workspace")
    .option("--workspace-slug <slug>", "its slug")
    .option("--save", "keep the workspace's secret key in the profile")
    .option("--out <file>", "file to write", "keyrack.toml")
    .option("--force", "write over an existing file")
    .addHelpText(
      "after",
      "\nExamples:\n  keyrack init\n  keyrack init --yes --data-dir /var/lib/keyrack --workspace-name Acme --workspace-slug acme",
    )
    .action((options: InitOptions) => init(options));
}

function given(options: InitOptions): Answers {
  const flags = options as Record<string, unknown>;
  const entries = ASKED.map((name) => [name, flags[name.replace(/_(\w)/g, (_a, c: string) => c.toUpperCase())]]);
  return Object.fromEntries(entries.filter(([, value]) => typeof value === "string")) as Answers;
}

async function init(options: InitOptions): Promise<void> {
  const file = resolve(options.out ?? "keyrack.toml");
  if (existsSync(file) && !options.force)
    throw new ExitError(`${file} exists. Use --force to write over it, or --out for another.`, 2);
  if (!options.yes && !isTerminal())
    throw new ExitError("This is no terminal: give the answers as flags, with --yes.", 2);
  const wizard = options.yes ? undefined : await import("./wizard.ts");
  const answered = wizard ? await wizard.askSettings(given(options)) : given(options);
  const settings = check(answered);
  await tryAll(settings, wizard?.showTried);
  const workspace = wizard ? await wizard.askWorkspace(options) : plainWorkspace(options);
  write(file, tomlOf(answered), options.force === true);
  const key = workspace ? await makeWorkspace(settings, workspace, options) : undefined;
  finish(file, settings, key, options);
}

function plainWorkspace({ workspaceName: name, workspaceSlug: slug }: InitOptions) {
  if (!name && !slug) return undefined;
  if (!name || !slug) throw new ExitError("--workspace-name and --workspace-slug go together.", 2);
  return { name, slug };
}

/** The answers through the same readers as every start. */
function check(answers: Answers): Settings {
  try {
    return loadSettings({ env: {}, flags: answers, cwd: "/nonexistent" }).settings;
  } catch (error) {
    if (error instanceof BadSetting) throw new ExitError(error.message, 2);
    throw error;
  }
}

async function tryAll(
  settings: Settings,
  tell: ((what: string, problem: string | null) => void) | undefined,
): Promise<void> {
  for (const { what, problem } of await tryConnections(settings)) {
    tell?.(what, problem);
    if (problem) throw new ExitError(`${what} cannot be used: ${problem}. Nothing was written.`, 3);
  }
}

function tomlOf(answers: Answers): string {
  const lines = ASKED.filter((name) => answers[name]).map((name) => {
    const value = answers[name] ?? "";
    return `${fileKey(name)} = ${name === "port" ? value : JSON.stringify(value)}`;
  });
  return `# Written by keyrack init. Every setting there is: keyrack config example\n${lines.join("\n")}\n`;
}

/** A new file each time: one that is written over would keep its mode, and the addresses hold passwords. */
function write(file: string, text: string, force: boolean): void {
  try {
    if (force) rmSync(file, { force: true });
    writeFileSync(file, text, { mode: 0o600, flag: "wx" });
  } catch (error) {
    throw new ExitError(`${file} cannot be written: ${(error as NodeJS.ErrnoException).code}.`, 2);
  }
}

/** Made on the database itself, as the bootstrap token would: no server runs yet. */
async function makeWorkspace(
  settings: Settings,
  want: { name: string; slug: string },
  options: InitOptions,
): Promise<string> {
  const [{ startInstance }, { StartRefused }, { silentLog }] = await Promise.all([
    import("../../../server/start.ts"),
    import("../../../server/start-refused.ts"),
    import("../../../platform/log.ts"),
  ]);
  try {
    const app = await startInstance({ settings: { ...settings, host: "127.0.0.1", port: 0 }, log: silentLog });
    try {
      const { fetchJson } = await import("../../api/request.ts");
      const ask = { method: "POST", path: "/v1/workspaces", body: want };
      const made = await fetchJson<{ secret_key: { key: string } }>({ url: app.url, bearer: app.bootstrap.token }, ask);
      const url = settings.public_url ?? `http://${settings.host}:${settings.port}`;
      if (options.save) {
        const { saveProfile } = await import("../../api/profiles.ts");
        saveProfile("default", { url, secret_key: made.secret_key.key, about: `workspace ${want.name}` });
      }
      return made.secret_key.key;
    } finally {
      await app.stop();
    }
  } catch (error) {
    throw error instanceof StartRefused ? new ExitError(error.message, error.exitCode) : error;
  }
}

function finish(file: string, settings: Settings, key: string | undefined, options: InitOptions): void {
  if (options.json)
    return out(JSON.stringify({ object: "init", file, data_dir: resolve(settings.data_dir), secret_key: key ?? null }));
  if (options.quiet) return out(key ?? file);
  out(`Wrote ${file}.`);
  if (key) out(`The workspace's secret key, shown only this once:\n  ${key}`);
  out(`Start it with: keyrack serve${file === join(process.cwd(), "keyrack.toml") ? "" : ` --config ${file}`}`);
}
