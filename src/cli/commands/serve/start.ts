// Starts an instance in this process, permanent or ephemeral, for `keyrack serve` and `keyrack ephemeral`.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Loaded } from "../../../config/load.ts";
import { envOf, settingNames } from "../../../config/settings.ts";
import type { Clock } from "../../../domain/core/clock.ts";
import { createLog } from "../../../platform/log.ts";
import type { Demo } from "../../../server/demo/demo.ts";
import type { Seed } from "../../../server/seed.ts";
import type { RunningInstance } from "../../../server/start.ts";
import { readSettings } from "../../settings.ts";
import { exitOnSignals } from "../../signals.ts";
import { commandPath } from "../../ui/command-name.ts";
import { createProgressBar } from "../../ui/progress.ts";
import { ExitError } from "../../ui/output.ts";

export type StartOptions = {
  config?: string;
  seed?: true;
  demo?: true;
  demoKeys?: string;
  demoTenants?: string;
  allowNetworkFs?: true;
  forceReadOnly?: true;
  ephemeral?: true;
};

export async function start(
  { settings, warnings }: Loaded,
  options: StartOptions,
  clock?: Clock,
): Promise<RunningInstance> {
  const { startInstance } = await import("../../../server/start.ts");
  const log = createLog({ level: settings.log_level, pretty: process.stderr.isTTY });
  for (const warning of warnings) log.warn(warning);
  const { allowNetworkFs, forceReadOnly, ephemeral } = options;
  return startInstance({
    settings,
    log,
    allowNetworkFs: allowNetworkFs === true,
    forceReadOnly: forceReadOnly === true,
    ephemeral: ephemeral === true,
    command: commandPath(),
    ...(clock && { clock }),
  });
}

/**
 * Ignores the operator's own environment and keyrack.toml: a database named there would be written to, and would
 * outlive the ephemeral instance.
 */
function ephemeralSettings(options: StartOptions, dir: string): Loaded {
  const { KEYRACK_LOG_LEVEL, KEYRACK_CACHE_DIR, ...ignored } = process.env;
  const flags = {
    data_dir: dir,
    throttle: "off",
    mail_url: `file:${join(dir, "mail")}`,
    port: "0",
    backup_every: "off",
    restore_test_every: "off",
  };
  const loaded = readSettings(options, { env: { KEYRACK_LOG_LEVEL, KEYRACK_CACHE_DIR }, cwd: dir, flags });
  const named = [...settingNames.map(envOf), "KEYRACK_CONFIG"].filter((name) => ignored[name]);
  if (named.length > 0) loaded.warnings.push(`An ephemeral instance ignores ${named.join(", ")}.`);
  return loaded;
}

type Ephemeral = {
  app: RunningInstance;
  seed: Seed | undefined;
  demo: Demo | undefined;
  dir: string;
  /** Call once the caller handles the ending signals itself. */
  releaseSignals: () => void;
};

/** What commands and examples read to use the instance: `secret_key` as KEYRACK_SECRET_KEY. */
export function environmentOf(values: Record<string, string | null>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [`KEYRACK_${name.toUpperCase()}`, value ?? ""]),
  );
}

/** Starts an instance in a temporary folder that is deleted when the process exits, by a signal too. */
export async function startEphemeral(given: StartOptions): Promise<Ephemeral> {
  const options = { ...given, ephemeral: true } as const;
  if ("dataDir" in options) throw new ExitError("--data-dir and --ephemeral cannot be used together.", 2);
  const releaseSignals = exitOnSignals();
  const dir = mkdtempSync(join(tmpdir(), "keyrack-ephemeral-"));
  process.on("exit", () => rmSync(dir, { recursive: true, force: true }));
  if (options.demo) return { ...(await startDemo(options, dir)), dir, seed: undefined, releaseSignals };
  const app = await start(ephemeralSettings(options, dir), options);
  const { seedInstance } = await import("../../../server/seed.ts");
  const seed = options.seed ? await seedInstance(app.services) : undefined;
  return { app, dir, seed, demo: undefined, releaseSignals };
}

async function startDemo(options: StartOptions, dir: string): Promise<Pick<Ephemeral, "app" | "demo">> {
  const size = { keys: demoSize(options, "demoKeys", 600), tenants: demoSize(options, "demoTenants", 60) };
  const [{ DemoClock }, { DEMO_DAYS, seedDemo }] = await Promise.all([
    import("../../../server/demo/clock.ts"),
    import("../../../server/demo/demo.ts"),
  ]);
  const clock = new DemoClock(DEMO_DAYS);
  const app = await start(ephemeralSettings(options, dir), options, clock);
  const bar = createProgressBar(DEMO_DAYS, "days of the demonstration");
  const demo = await seedDemo(app.services, clock, size, (days) => bar.update(days));
  bar.end();
  return { app, demo };
}

const DEMO_MAX = { demoKeys: 200_000, demoTenants: 50_000 };

function demoSize(options: StartOptions, name: keyof typeof DEMO_MAX, otherwise: number): number {
  const count = Number(options[name] ?? otherwise);
  if (Number.isInteger(count) && count >= 1 && count <= DEMO_MAX[name]) return count;
  const flag = name === "demoKeys" ? "--demo-keys" : "--demo-tenants";
  throw new ExitError(`${flag} must be a number from 1 to ${DEMO_MAX[name]}.`, 2);
}
