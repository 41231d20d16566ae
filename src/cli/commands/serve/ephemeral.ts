// `keyrack ephemeral`: runs a command against a temporary instance.
import { spawn } from "node:child_process";
import { join } from "node:path";
import type { Command } from "commander";
import { CLIENT_ENV } from "../../../config/load.ts";
import { examples } from "../../ui/output.ts";
import { ENDING_SIGNALS, signalStatus } from "../../signals.ts";
import { environmentOf, startEphemeral } from "./start.ts";

export function addTo(program: Command): void {
  program
    .command("ephemeral")
    .description("Run a command against a temporary instance, then delete it. Exits with the command's status.")
    .option("--seed", "create a workspace, keys, a project and a tenant first")
    .argument("<command...>", "the command to run, after --")
    .addHelpText(
      "after",
      examples(["keyrack ephemeral --seed -- npm test", "keyrack ephemeral -- sh -c 'curl -s $KEYRACK_URL/healthz'"]),
    )
    .action((command: string[], options: { seed?: true }) => ephemeral(command, options));
}

async function ephemeral(command: string[], options: { seed?: true }): Promise<void> {
  const { app, seed, dir, releaseSignals } = await startEphemeral(options);
  // The caller's own credentials are of another instance, and must not be sent to this one.
  const inherited = Object.entries(process.env).filter(([name]) => !CLIENT_ENV.includes(name));
  const env = {
    ...Object.fromEntries(inherited),
    ...environmentOf({ url: app.url, ...seed, bootstrap_token: app.bootstrap.token, mail_dir: join(dir, "mail") }),
  };
  const [file = "", ...args] = command;
  const child = spawn(file, args, { env, stdio: "inherit" });
  for (const signal of ENDING_SIGNALS) process.on(signal, () => child.kill(signal));
  releaseSignals();
  const status = await new Promise<number>((resolve) => {
    child.on("error", (error: NodeJS.ErrnoException) => {
      process.stderr.write(`keyrack: Cannot run ${file}: ${error.code ?? error.message}.\n`);
      resolve(127);
    });
    child.on("exit", (code, signal) => resolve(signal ? signalStatus(signal) : (code ?? 1)));
  });
  await app.stop();
  process.exitCode = status;
}
