// `keyrack ephemeral`: runs a command against a temporary instance.
import { spawn } from "node:child_process";
import { join } from "node:path";
import type { Command } from "commander";
import { examples } from "../../ui/output.ts";
import { ENDING_SIGNALS, signalStatus, startEphemeral } from "./start.ts";

export function addEphemeralCommand(program: Command): void {
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
  const env = {
    ...process.env,
    KEYRACK_URL: app.url,
    KEYRACK_BOOTSTRAP_TOKEN: app.bootstrap.token ?? "",
    KEYRACK_MAIL_DIR: join(dir, "mail"),
    ...(seed && {
      KEYRACK_WORKSPACE_ID: seed.workspace_id,
      KEYRACK_SECRET_KEY: seed.secret_key,
      KEYRACK_TEST_SECRET_KEY: seed.test_secret_key,
      KEYRACK_VERIFY_KEY: seed.verify_key,
      KEYRACK_PROJECT_ID: seed.project_id,
      KEYRACK_TENANT_ID: seed.tenant_id,
    }),
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
