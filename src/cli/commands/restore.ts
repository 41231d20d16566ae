// `keyrack restore`: puts a backup in the place of the database. Refused while a server runs.
import { resolve } from "node:path";
import type { Command } from "commander";
import type { Restored } from "../../backup/restore.ts";
import { operatorFlags, operatorSettings, refuseWhileRunning, show, type OperatorOptions } from "../operator.ts";
import { createSteps } from "../ui/progress-steps.ts";

type Options = OperatorOptions & { force?: true; newMasterKey?: true; backupDir?: string };

export function addRestoreCommand(program: Command): void {
  operatorFlags(program.command("restore"), [
    "keyrack restore --data-dir /var/lib/keyrack",
    "keyrack restore /mnt/backups/20261115T031500Z-0a1b2c --force",
  ])
    .description("Put a backup in the place of the database. All sessions end; library nodes fetch their policy anew.")
    .argument("[id]", "the backup, or the path of its folder (default: the newest)")
    .option("--backup-dir <dir>", "where backups lie")
    .option("--force", "replace a database that is there; the old one is kept beside it")
    .option("--new-master-key", "go on without the master key: new signing keys, unsent mail dropped")
    .action((id: string | undefined, options: Options) => restore(id, options));
}

async function restore(id: string | undefined, options: Options): Promise<void> {
  const settings = operatorSettings(options);
  await refuseWhileRunning(resolve(settings.data_dir), "restore");
  const [{ restoreOffline }, { createLog }] = await Promise.all([
    import("../../server/offline.ts"),
    import("../../platform/log.ts"),
  ]);
  const steps = createSteps();
  try {
    const restored = await restoreOffline({
      settings,
      log: createLog({ level: "error", pretty: process.stderr.isTTY }),
      backup: id,
      force: options.force === true,
      newMasterKey: options.newMasterKey === true,
      onProgress: steps.tell,
    });
    steps.end();
    show(options, { json: restored, quiet: restored.backup_id, human: told(restored) });
  } finally {
    steps.end();
  }
}

function told(restored: Restored): string {
  const { revoked_after_backup: revoked, revived, released } = restored;
  const lines = [
    `Restored backup ${restored.backup_id} of ${restored.backup_created_at}.`,
    `  ${restored.sessions_ended} sessions and ${restored.tokens_ended} one-time tokens ended.`,
    "  Every project's policy version was raised: library nodes fetch the whole policy at their next poll.",
  ];
  if (restored.replaced) {
    lines.push(`  The replaced database is kept as ${restored.replaced}. Remove it when you no longer need it.`);
    if (revoked === null) lines.push("  It could not be read: which keys were revoked after the backup is not known.");
    else lines.push(`  ${revoked} keys were revoked after the backup; ${revived.length} of them work again.`);
  }
  if (revived.length > 0) lines.push("  Revoke them now:", ...revived.map(revokeLine));
  if (released.length > 0)
    lines.push(
      "  Keys that leaked after the backup are out of quarantine. Revoke them now:",
      ...released.map(revokeLine),
    );
  if (restored.new_master_key)
    lines.push(`  New master, signing and checkpoint keys. ${restored.mail_dropped} unsent mails were dropped.`);
  return lines.join("\n");
}

function revokeLine({ id, kind }: Restored["revived"][number]): string {
  return `    keyrack ${kind === "api_keys" ? "key" : "secret-key"} revoke ${id}`;
}
