// `keyrack master-key rotate`. Refused while a server runs.
import { resolve } from "node:path";
import type { Command } from "commander";
import { operatorFlags, operatorSettings, refuseWhileRunning, show, type OperatorOptions } from "../operator.ts";

export function addMasterKeyCommands(program: Command): void {
  const noun = program
    .command("master-key")
    .description("The key that everything secret in the database is sealed under.");
  operatorFlags(noun.command("rotate"), [
    "keyrack master-key rotate",
    "keyrack master-key rotate --data-dir /var/lib/keyrack",
  ])
    .description("Make a new master key and seal everything anew under it. Refused while a server runs.")
    .action((options: OperatorOptions) => rotate(options));
}

async function rotate(options: OperatorOptions): Promise<void> {
  const settings = operatorSettings(options);
  await refuseWhileRunning(resolve(settings.data_dir), "rotate its master key");
  const [{ rotateMasterKey }, { createLog }] = await Promise.all([
    import("../../server/offline.ts"),
    import("../../platform/log.ts"),
  ]);
  const log = createLog({ level: "error", pretty: process.stderr.isTTY });
  const rotated = await rotateMasterKey(settings, log);
  const { signing_keys, outbox, idempotency_records } = rotated.resealed;
  const human = [
    `Sealed anew: ${signing_keys} signing keys, ${outbox} unsent mails, ${idempotency_records} kept answers.`,
    `The old key is kept as ${rotated.old_key_file}: backups made until now need it. Move it to a safe place.`,
    "Counts of failed log-ins start again. Give the new key to every process on this database, then start them.",
  ].join("\n");
  show(options, { json: rotated, quiet: rotated.old_key_file, human });
}
