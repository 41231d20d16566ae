// Operator commands: through keyrack.sock while an instance runs on the data dir, else directly on its database under
// the lock. No credential is needed: read access to the data dir is what makes an operator.
import { resolve } from "node:path";
import type { Command } from "commander";
import type { Settings } from "../config/settings.ts";
import type { Services } from "../domain/core/context.ts";
import type { Args, OperatorCommand, OperatorCommandName, Result } from "../server/operator-commands.ts";
import { createLog } from "../platform/log.ts";
import { describeTarget } from "../store/target.ts";
import { readSettings } from "./settings.ts";
import { ExitError, examples, outputFlags, type Examples, type OutputOptions } from "./ui/output.ts";
import type { OnProgress } from "./ui/progress.ts";

export type OperatorOptions = OutputOptions & {
  config?: string;
  databaseUrl?: string;
  backupDir?: string;
  allowNetworkFs?: true;
};

/** `when` begins the flags' descriptions where they need another flag. */
export function databaseFlags(command: Command, when = ""): Command {
  return command
    .option("--data-dir <dir>", `${when}folder with the database, keys, mail and backups`)
    .option("--database-url <url>", `${when}sqlite:FILE or postgres://…`)
    .option("--config <file>", `${when}settings file`)
    .option("--allow-network-fs", `${when}allow a data dir on a network file system`);
}

export function operatorFlags(command: Command, worked: Examples, quiet?: string): Command {
  return outputFlags(databaseFlags(command), quiet).addHelpText("after", examples(worked));
}

export function operatorSettings(options: OperatorOptions): Settings {
  return readSettings(options).settings;
}

/** Runs a command of src/server/operator-commands.ts, in the running instance or in this process. */
export async function operate<N extends OperatorCommandName>(
  options: OperatorOptions,
  op: N,
  args: Args = {},
  onProgress: OnProgress = () => {},
): Promise<Result<N>> {
  const { callInstance } = await import("../server/operator-socket/client.ts");
  const settings = operatorSettings(options);
  await refuseOtherPlaces(options, settings);
  const reply = await callInstance(resolve(settings.data_dir), op, args, onProgress);
  if (reply) return reply.value as Result<N>;
  const { operatorCommands } = await import("../server/operator-commands.ts");
  const command: OperatorCommand = operatorCommands[op];
  return withServices(options, async (services) => (await command(services, args, onProgress)) as Result<N>);
}

/** A running instance uses its own database and backup folder, and would ignore flags that name others. */
export async function refuseOtherPlaces(options: OperatorOptions, settings: Settings): Promise<void> {
  if (options.databaseUrl === undefined && options.backupDir === undefined) return;
  const dir = resolve(settings.data_dir);
  const { callInstance } = await import("../server/operator-socket/client.ts");
  const reply = await callInstance(dir, "instance.show", {});
  if (!reply) return;
  const own = reply.value as { database?: string; backup_dir?: string }; // absent in 0.1
  const { databaseTarget } = await import("../server/data-dir.ts");
  const database = describeTarget(databaseTarget(settings, dir));
  if (options.databaseUrl !== undefined && own.database !== undefined && own.database !== database)
    throw new ExitError(
      `The instance that is running on ${dir} uses another database, ${own.database}. Leave out --database-url, or name another --data-dir.`,
      2,
    );
  const { backupDir } = options;
  if (backupDir !== undefined && own.backup_dir !== resolve(backupDir))
    throw new ExitError(
      `The instance that is running on ${dir} uses its own backup folder, ${own.backup_dir ?? "KEYRACK_BACKUP_DIR"}. Leave out --backup-dir; a backup elsewhere can be named by its path.`,
      2,
    );
}

/** Opens the instance's database for `work` and closes it again. Fails while a server runs on it. */
async function withServices<T>(options: OperatorOptions, work: (services: Services) => Promise<T>): Promise<T> {
  const { openOffline } = await import("../server/offline.ts");
  const log = createLog({ level: "error", write: () => {} }); // the command reports its error itself
  const offline = await openOffline({
    settings: operatorSettings(options),
    log,
    allowNetworkFs: options.allowNetworkFs === true,
  });
  try {
    return await work(offline.services);
  } finally {
    await offline.close();
  }
}

export async function refuseWhileRunning(dir: string, next: string): Promise<void> {
  const { callInstance } = await import("../server/operator-socket/client.ts");
  if (await callInstance(dir, "instance.show", {}))
    throw new ExitError(`An instance is running on ${dir}. Stop it first, then ${next}.`, 1);
}
