// `keyrack serve` and `keyrack ephemeral`.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import type { Command } from "commander";
import type { RunningInstance } from "../../server/start.ts";
import type { Seed } from "../../server/seed.ts";
import { BadSetting, loadSettings, type Loaded } from "../../config/settings.ts";
import { ExitError, out, settingFlags } from "../ui/output.ts";

type ServeOptions = {
  json?: true;
  ephemeral?: true;
  seed?: true;
  config?: string;
  allowNetworkFs?: true;
  forceReadOnly?: true;
};

function addSettingFlags(command: Command): Command {
  return command
    .option("--host <address>", "address to listen on")
    .option("--port <number>", "port to listen on; 0 takes any free one")
    .option("--data-dir <dir>", "folder that holds everything")
    .option("--database-url <url>", "sqlite:FILE or postgres://…")
    .option("--redis-url <url>", "redis://…, a comma list = cluster")
    .option("--public-url <url>", "address people and browsers use")
    .option("--config <file>", "settings file (default: keyrack.toml here or in the data dir)");
}

export function addServeCommand(program: Command): void {
  addSettingFlags(program.command("serve"))
    .description("Run the server. The first start makes everything it needs.")
    .option("--json", "print one JSON line when ready")
    .option("--ephemeral", "a throwaway instance in a temporary folder, removed on exit")
    .option("--seed", "with --ephemeral: make a workspace, keys, a project and a tenant")
    .option("--allow-network-fs", "allow a data dir on a network file system")
    .option("--force-read-only", "start on a damaged SQLite database and only read")
    .addHelpText(
      "after",
      "\nExamples:\n  keyrack serve --port 8080 --data-dir /var/lib/keyrack\n  keyrack serve --ephemeral --seed --json",
    )
    .action((options: ServeOptions) => serve(options));
}

export function addEphemeralCommand(program: Command): void {
  program
    .command("ephemeral")
    .description("Start a throwaway instance, run a command against it, remove it. Exits with the command's status.")
    .option("--seed", "make a workspace, keys, a project and a tenant first")
    .argument("<command...>", "the command to run, behind --")
    .addHelpText(
      "after",
      "\nExamples:\n  keyrack ephemeral --seed -- npm test\n  keyrack ephemeral -- sh -c 'curl -s $KEYRACK_URL/healthz'",
    )
    .action((command: string[], options: { seed?: true }) => ephemeral(command, options.seed === true));
}

type LoadInput = Parameters<typeof loadSettings>[0];

function load(options: ServeOptions, input: Partial<LoadInput> = {}): Loaded {
  try {
    return loadSettings({
      env: process.env,
      configFile: options.config,
      ...input,
      flags: { ...input.flags, ...settingFlags(options) },
    });
  } catch (error) {
    if (error instanceof BadSetting) throw new ExitError(error.message, 2);
    throw error;
  }
}

type Allowed = { allowNetworkFs: boolean; forceReadOnly: boolean };

const allowed = (options: ServeOptions): Allowed => ({
  allowNetworkFs: options.allowNetworkFs === true,
  forceReadOnly: options.forceReadOnly === true,
});

async function start(loaded: Loaded, may: Allowed): Promise<RunningInstance> {
  const [{ startInstance }, { StartRefused }, { createLog }] = await Promise.all([
    import("../../server/start.ts"),
    import("../../server/start-refused.ts"),
    import("../../platform/log.ts"),
  ]);
  const log = createLog({ level: loaded.settings.log_level, pretty: process.stderr.isTTY });
  for (const warning of loaded.warnings) log.warn(warning);
  try {
    return await startInstance({ settings: loaded.settings, log, ...may });
  } catch (error) {
    throw error instanceof StartRefused ? new ExitError(error.message, error.exitCode) : error;
  }
}

const ENDING = ["SIGTERM", "SIGINT", "SIGHUP"] as const;
const SIGNALS: Record<string, number> = { SIGHUP: 1, SIGINT: 2, SIGKILL: 9, SIGTERM: 15 };

type Throwaway = { app: RunningInstance; seed: Seed | undefined; dir: string; undo: () => void };

/**
 * Nothing of the operator's own set-up reaches a throwaway instance: a database named in the environment or in a
 * keyrack.toml nearby would be written to, and kept.
 */
function throwawaySettings(options: ServeOptions, dir: string): Loaded {
  const { KEYRACK_LOG_LEVEL, KEYRACK_CACHE_DIR } = process.env;
  const flags = {
    data_dir: dir,
    throttle: "off",
    mail_url: `file:${join(dir, "mail")}`,
    port: "0",
    backup_every: "off",
    restore_test_every: "off",
  };
  return load(options, { env: { KEYRACK_LOG_LEVEL, KEYRACK_CACHE_DIR }, cwd: dir, flags });
}

async function startThrowaway(options: ServeOptions): Promise<Throwaway> {
  if ("dataDir" in options) throw new ExitError("--data-dir does not go with --ephemeral.", 2);
  // Until somebody else handles them: a signal ends the process by way of "exit", so that nothing is left behind.
  const undo = exitOnSignals();
  const dir = mkdtempSync(join(tmpdir(), "keyrack-ephemeral-"));
  process.on("exit", () => rmSync(dir, { recursive: true, force: true }));
  const app = await start(throwawaySettings(options, dir), allowed(options));
  const { seedInstance } = await import("../../server/seed.ts");
  const seed = options.seed ? await seedInstance(app.services) : undefined;
  return { app, dir, seed, undo };
}

function exitOnSignals(signals: readonly NodeJS.Signals[] = ENDING): () => void {
  const leave = (signal: NodeJS.Signals): void => process.exit(128 + (SIGNALS[signal] ?? 0));
  for (const signal of signals) process.on(signal, leave);
  return () => {
    for (const signal of signals) process.off(signal, leave);
  };
}

async function serve(options: ServeOptions): Promise<void> {
  if (options.seed && !options.ephemeral) throw new ExitError("--seed goes with --ephemeral.", 2);
  if (!options.ephemeral) return runUntilSignal(await start(load(options), allowed(options)), options, {});
  const { app, seed, dir, undo } = await startThrowaway(options);
  const extra = { ...seed, bootstrap_token: app.bootstrap.token, mail_dir: join(dir, "mail") };
  const stopped = onSignal(app);
  undo();
  await runUntilSignal(app, options, seed ? extra : {}, stopped);
}

async function runUntilSignal(
  app: RunningInstance,
  options: ServeOptions,
  extra: Record<string, unknown>,
  stopped = onSignal(app),
): Promise<void> {
  const { url, dataDir: data_dir, bootstrap } = app;
  if (options.json) {
    const line = {
      event: "listening",
      url,
      data_dir,
      bootstrap_token_file: bootstrap.file,
      pid: process.pid,
      ...extra,
    };
    out(JSON.stringify(line));
  } else {
    out(`keyrack listening on ${url}`);
    if (app.firstStart && bootstrap.file) out(firstSteps(url, bootstrap.file));
  }
  await stopped;
}

function firstSteps(url: string, file: string): string {
  const door =
    basename(file) === "bootstrap.token" ? `--data-dir ${dirname(file)}` : `--bootstrap-token "$(cat ${file})"`;
  return [
    "",
    "First start. Make your first workspace:",
    `  keyrack workspace create --name "Acme" --slug acme --save --url ${url} ${door}`,
    "It prints a secret key, shown only once, and --save keeps it for the next commands.",
  ].join("\n");
}

/**
 * Resolves when a signal has been handled. A second signal ends the process at once. With TLS a SIGHUP means new
 * certificate files; without, it ends the server as it ends any program.
 */
function onSignal(app: RunningInstance): Promise<void> {
  const ending = ENDING.filter((signal) => signal !== "SIGHUP" || !app.reload);
  if (app.reload) process.on("SIGHUP", app.reload);
  return new Promise((resolve, reject) => {
    const handle = (): void => {
      exitOnSignals(ending);
      app.stop().then(resolve, reject);
      for (const signal of ending) process.off(signal, handle);
    };
    for (const signal of ending) process.on(signal, handle);
  });
}

async function ephemeral(command: string[], seeded: boolean): Promise<void> {
  const { app, seed, dir, undo } = await startThrowaway(seeded ? { seed: true } : {});
  const env = {
    ...process.env,
    KEYRACK_URL: app.url,
    KEYRACK_BOOTSTRAP_TOKEN: app.bootstrap.token ?? "",
    KEYRACK_MAIL_DIR: join(dir, "mail"),
    ...(seed && {
      KEYRACK_WORKSPACE_ID: seed.workspace_id,
      KEYRACK_SECRET_KEY: seed.secret_key,
      KEYRACK_TEST_SECRET_KEY: seed.test_secret_key,
      KEYRACK_PROJECT_ID: seed.project_id,
      KEYRACK_TENANT_ID: seed.tenant_id,
    }),
  };
  const [file = "", ...args] = command;
  const child = spawn(file, args, { env, stdio: "inherit" });
  for (const signal of ENDING) process.on(signal, () => child.kill(signal));
  undo();
  const status = await new Promise<number>((resolve) => {
    child.on("error", (error: NodeJS.ErrnoException) => {
      process.stderr.write(`keyrack: ${file} cannot be run: ${error.code ?? error.message}\n`);
      resolve(127);
    });
    child.on("exit", (code, signal) => resolve(signal ? 128 + (SIGNALS[signal] ?? 0) : (code ?? 1)));
  });
  await app.stop();
  process.exitCode = status;
}
