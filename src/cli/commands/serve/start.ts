// Starts an instance in this process, permanent or ephemeral, for `keyrack serve` and `keyrack ephemeral`.
import { mkdtempSync, rmSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";
import type { Loaded } from "../../../config/load.ts";
import type { Seed } from "../../../server/seed.ts";
import type { RunningInstance } from "../../../server/start.ts";
import { readSettings } from "../../settings.ts";
import { ExitError } from "../../ui/output.ts";

export type StartOptions = { config?: string; seed?: true; allowNetworkFs?: true; forceReadOnly?: true };

export async function start({ settings, warnings }: Loaded, options: StartOptions): Promise<RunningInstance> {
  const [{ startInstance }, { createLog }] = await Promise.all([
    import("../../../server/start.ts"),
    import("../../../platform/log.ts"),
  ]);
  const log = createLog({ level: settings.log_level, pretty: process.stderr.isTTY });
  for (const warning of warnings) log.warn(warning);
  const { allowNetworkFs, forceReadOnly } = options;
  return startInstance({
    settings,
    log,
    allowNetworkFs: allowNetworkFs === true,
    forceReadOnly: forceReadOnly === true,
  });
}

/**
 * Ignores the operator's own environment and keyrack.toml: a database named there would be written to, and would
 * outlive the ephemeral instance.
 */
function ephemeralSettings(options: StartOptions, dir: string): Loaded {
  const { KEYRACK_LOG_LEVEL, KEYRACK_CACHE_DIR } = process.env;
  const flags = {
    data_dir: dir,
    throttle: "off",
    mail_url: `file:${join(dir, "mail")}`,
    port: "0",
    backup_every: "off",
    restore_test_every: "off",
  };
  return readSettings(options, { env: { KEYRACK_LOG_LEVEL, KEYRACK_CACHE_DIR }, cwd: dir, flags });
}

type Ephemeral = {
  app: RunningInstance;
  seed: Seed | undefined;
  dir: string;
  /** Call once the caller handles the ending signals itself. */
  releaseSignals: () => void;
};

/** Starts an instance in a temporary folder that is deleted when the process exits, by a signal too. */
export async function startEphemeral(options: StartOptions): Promise<Ephemeral> {
  if ("dataDir" in options) throw new ExitError("--data-dir and --ephemeral exclude each other.", 2);
  const releaseSignals = exitOnSignals();
  const dir = mkdtempSync(join(tmpdir(), "keyrack-ephemeral-"));
  process.on("exit", () => rmSync(dir, { recursive: true, force: true }));
  const app = await start(ephemeralSettings(options, dir), options);
  const { seedInstance } = await import("../../../server/seed.ts");
  const seed = options.seed ? await seedInstance(app.services) : undefined;
  return { app, dir, seed, releaseSignals };
}

export const ENDING_SIGNALS = ["SIGTERM", "SIGINT", "SIGHUP"] as const;

/** The status a shell reports for a process that a signal ended. */
export function signalStatus(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal];
}

/** Exits on these signals, so that "exit" listeners run. Returns a function that stops listening. */
export function exitOnSignals(signals: readonly NodeJS.Signals[] = ENDING_SIGNALS): () => void {
  const exit = (signal: NodeJS.Signals): void => process.exit(signalStatus(signal));
  for (const signal of signals) process.on(signal, exit);
  return () => {
    for (const signal of signals) process.off(signal, exit);
  };
}
