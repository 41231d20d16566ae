// Operator commands: through keyrack.sock while an instance runs on the data dir, else on its database under the lock.
// No credential is asked for: whoever may read the data dir is the operator.
import { resolve } from "node:path";
import type { Command } from "commander";
import { BadSetting, loadSettings, type Settings } from "../config/settings.ts";
import type { Services } from "../domain/core/context.ts";
import type { Args, Operation, OperationName, Result } from "../server/operator-socket/operations.ts";
import { ExitError, out, settingFlags } from "./ui/output.ts";

export type OperatorOptions = { config?: string; json?: true; quiet?: true };

export function operatorFlags(command: Command, examples: readonly [string, string]): Command {
  return command
    .option("--data-dir <dir>", "folder that holds everything")
    .option("--database-url <url>", "sqlite:FILE or postgres://…")
    .option("--config <file>", "settings file")
    .option("--json", "one JSON document")
    .option("--quiet", "only the id")
    .addHelpText("after", `\nExamples:\n  ${examples.join("\n  ")}`);
}

export function operatorSettings(options: OperatorOptions): Settings {
  try {
    return loadSettings({ env: process.env, flags: settingFlags(options), configFile: options.config }).settings;
  } catch (error) {
    if (error instanceof BadSetting) throw new ExitError(error.message, 2);
    throw error;
  }
}

/** Does a named operation of src/server/operator-socket/operations.ts, in the running instance or here. */
export async function operate<N extends OperationName>(
  options: OperatorOptions,
  op: N,
  args: Args = {},
  progress: (step: unknown) => void = () => {},
): Promise<Result<N>> {
  const { callInstance } = await import("../server/operator-socket/client.ts");
  const { data_dir } = operatorSettings(options);
  const asked = await callInstance(resolve(data_dir), op, args, progress);
  if (asked) return asked.value as Result<N>;
  const { operations } = await import("../server/operator-socket/operations.ts");
  const operation: Operation = operations[op];
  return withServices(options, async (services) => (await operation(services, args, progress)) as Result<N>);
}

/** Opens the instance's database, does the work, closes it again. Refused while a server runs on it. */
export async function withServices<T>(options: OperatorOptions, work: (services: Services) => Promise<T>): Promise<T> {
  const [{ openOffline }, { StartRefused }, { createLog }, { Failure }] = await Promise.all([
    import("../server/offline.ts"),
    import("../server/start-refused.ts"),
    import("../platform/log.ts"),
    import("../kernel/errors.ts"),
  ]);
  const settings = operatorSettings(options);
  try {
    const offline = await openOffline({ settings, log: createLog({ level: "error", pretty: process.stderr.isTTY }) });
    try {
      return await work(offline.services);
    } finally {
      await offline.close();
    }
  } catch (error) {
    if (error instanceof BadSetting) throw new ExitError(error.message, 2);
    if (error instanceof StartRefused) throw new ExitError(error.message, error.exitCode);
    if (error instanceof Failure) throw new ExitError(error.message, 1);
    throw error;
  }
}

export async function refuseWhileRunning(dir: string, then: string): Promise<void> {
  const { callInstance } = await import("../server/operator-socket/client.ts");
  if (await callInstance(dir, "instance.show", {}))
    throw new ExitError(`An instance runs on ${dir}. Stop it first, then ${then}.`, 1);
}

type Shown<T> = { json: T; quiet: string; human: string };

export function show<T>(options: OperatorOptions, { json, quiet, human }: Shown<T>): void {
  if (options.json) return out(JSON.stringify(json));
  const text = options.quiet ? quiet : human;
  if (text !== "") out(text);
}
