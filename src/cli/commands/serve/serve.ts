// `keyrack serve`.
import { basename, dirname, join } from "node:path";
import type { Command } from "commander";
import type { SetupLink } from "../../../domain/workspaces/setup-tokens.ts";
import { tuneHeap } from "../../../platform/heap.ts";
import type { RunningInstance } from "../../../server/start.ts";
import { keepRunningOnOutputError } from "../../output-errors.ts";
import { readSettings } from "../../settings.ts";
import { commandName, shellQuote } from "../../ui/command-name.ts";
import { ExitError, examples, print } from "../../ui/output.ts";
import { ENDING_SIGNALS, exitOnSignals } from "../../signals.ts";
import { environmentOf, start, startEphemeral, type StartOptions } from "./start.ts";

type Seeded = Record<string, string | null>;
type ServeOptions = StartOptions & { json?: true };

export function addTo(program: Command): void {
  program
    .command("serve")
    .description("Run the server. The first start creates everything it needs.")
    .option("--host <address>", "address to listen on")
    .option("--port <number>", "port to listen on; 0 for any free port")
    .option("--data-dir <dir>", "folder for the database, keys, mail and backups")
    .option("--database-url <url>", "sqlite:FILE or postgres://…")
    .option("--redis-url <url>", "redis://…, or a comma-separated list for a cluster")
    .option("--public-url <url>", "URL that people and browsers use")
    .option("--config <file>", "settings file (default: keyrack.toml here or in the data dir)")
    .option("--json", "print one JSON line when ready")
    .option("--ephemeral", "run a temporary instance and delete its data on exit")
    .option("--seed", "with --ephemeral: create a workspace, keys, a project and a tenant")
    .option("--demo", "with --ephemeral: create people, customers, keys and thirty days of traffic, to look around")
    .option("--demo-keys <n>", "with --demo: number of keys (default: 600)")
    .option("--demo-tenants <n>", "with --demo: number of tenants (default: 60)")
    .option("--allow-network-fs", "allow a data dir on a network file system")
    .option("--force-read-only", "start read-only on a damaged SQLite database")
    .addHelpText(
      "after",
      examples(["keyrack serve --port 8080 --data-dir /var/lib/keyrack", "keyrack serve --ephemeral --seed --json"]),
    )
    .action((options: ServeOptions) => serve(options));
}

async function serve(options: ServeOptions): Promise<void> {
  if (options.seed && !options.ephemeral) throw new ExitError("--seed requires --ephemeral.", 2);
  if (options.demo && !options.ephemeral) throw new ExitError("--demo requires --ephemeral.", 2);
  for (const [flag, value] of [
    ["--demo-keys", options.demoKeys],
    ["--demo-tenants", options.demoTenants],
  ] as const)
    if (value !== undefined && !options.demo) throw new ExitError(`${flag} requires --demo.`, 2);
  if (options.demo && options.seed) throw new ExitError("--demo and --seed cannot be used together.", 2);
  if (!options.ephemeral) {
    const app = await start(readSettings(options), options);
    return runUntilSignal(app, options, undefined, stopOnSignal(app));
  }
  const { app, seed, demo, dir, releaseSignals } = await startEphemeral(options);
  const made = seed ?? demo;
  const seeded = made ? { ...made, bootstrap_token: app.bootstrap.token, mail_dir: join(dir, "mail") } : undefined;
  const stopped = stopOnSignal(app);
  releaseSignals();
  await runUntilSignal(app, options, seeded, stopped);
}

async function runUntilSignal(
  app: RunningInstance,
  options: ServeOptions,
  seeded: Seeded | undefined,
  stopped: Promise<void>,
): Promise<void> {
  const { url, dataDir: data_dir, bootstrap } = app;
  const setup = await setupLink(app);
  tuneHeap();
  keepRunningOnOutputError();
  if (options.json) {
    const ready = { event: "listening", url, data_dir, bootstrap_token_file: bootstrap.file, pid: process.pid };
    print(
      JSON.stringify({
        ...ready,
        setup_url: setup?.url ?? null,
        setup_expires_at: setup?.expires_at ?? null,
        ...seeded,
      }),
    );
  } else {
    print(`keyrack listening on ${url}`);
    if (seeded) print(seededText(url, seeded));
    if (setup)
      print(
        `\nOpen this link to create the first account and workspace. It works once, until ${setup.expires_at}.\n${setup.url}`,
      );
    if (!seeded && app.firstStart && bootstrap.file) print(firstSteps(url, bootstrap.file));
  }
  await stopped;
}

/** A demonstration is for a browser, a seed for a shell. */
function seededText(url: string, seeded: Seeded): string {
  const { dashboard_url, owner_email, owner_password } = seeded;
  if (owner_email) return `\nLog in at ${dashboard_url} as ${owner_email} with the password: ${owner_password}`;
  const variables = Object.entries(environmentOf({ url, ...seeded }));
  const lines = variables.map(([name, value]) => `  export ${name}="${value}"`);
  return ["", "To use it from another terminal:", ...lines].join("\n");
}

/** The link is a credential: it goes to standard output only. */
async function setupLink({ services }: RunningInstance): Promise<SetupLink | null> {
  const { isSetupOpen, issueSetupLink } = await import("../../../domain/workspaces/setup-tokens.ts");
  return !services.store.readOnly && (await isSetupOpen(services)) ? issueSetupLink(services) : null;
}

function firstSteps(url: string, file: string): string {
  // Not --bootstrap-token: process lists show arguments.
  const inDataDir = basename(file) === "bootstrap.token";
  const variable = inDataDir ? "" : `KEYRACK_BOOTSTRAP_TOKEN_FILE=${shellQuote(file)} `;
  const flag = inDataDir ? ` --data-dir ${shellQuote(dirname(file))}` : "";
  return [
    "",
    "Or create your first workspace from the command line:",
    `  ${variable}${shellQuote(commandName())} workspace create --name "Acme" --slug acme --save --url ${url}${flag}`,
    "It prints a secret key, shown only once; --save stores it in your profile for the next commands.",
  ].join("\n");
}

/**
 * Resolves when the server has stopped after a signal. A second signal ends the process at once. With TLS, SIGHUP
 * reloads the certificate files instead of stopping the server.
 */
function stopOnSignal(app: RunningInstance): Promise<void> {
  const ending = ENDING_SIGNALS.filter((signal) => signal !== "SIGHUP" || !app.reload);
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
