// `keyrack master-key rotate`. Refused while a server runs.
import { resolve } from "node:path";
import type { Command } from "commander";
import { createLog } from "../../platform/log.ts";
import { operatorFlags, operatorSettings, refuseWhileRunning, type OperatorOptions } from "../operator.ts";
import { plural, printResult } from "../ui/output.ts";

export function addTo(program: Command): void {
  operatorFlags(
    program.command("master-key").command("rotate"),
    ["keyrack master-key rotate", "keyrack master-key rotate --data-dir /var/lib/keyrack"],
    "print only the old key's file",
  )
    .description("Create a new master key and re-encrypt every secret with it. Refused while a server is running.")
    .action((options: OperatorOptions) => rotate(options));
}

async function rotate(options: OperatorOptions): Promise<void> {
  const settings = operatorSettings(options);
  await refuseWhileRunning(resolve(settings.data_dir), "rotate its master key");
  const { rotateMasterKey } = await import("../../server/offline.ts");
  const log = createLog({ level: "error", pretty: process.stderr.isTTY });
  const rotated = await rotateMasterKey(settings, log, options.allowNetworkFs === true);
  const { signing_keys, outbox, idempotency_records } = rotated.resealed;
  const resealed = [
    plural(signing_keys, "signing key"),
    plural(outbox, "unsent message"),
    plural(idempotency_records, "idempotency record"),
  ];
  const human = [
    `Rotated the master key. Re-encrypted: ${resealed.join(", ")}.`,
    `The old key is in ${rotated.old_key_file}: backups made before now need it. Move it to a safe place after the next backup.`,
    "Failed-login counts start at zero. Give every process on this database the new key before you start it.",
  ].join("\n");
  printResult(options, { json: rotated, quiet: rotated.old_key_file, human });
}
