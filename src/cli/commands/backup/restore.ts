// `keyrack restore`: replaces the database with a backup. Refused while a server runs.
import { resolve } from "node:path";
import type { Command } from "commander";
import type { Restored } from "../../../backup/restore.ts";
import { createLog } from "../../../platform/log.ts";
import { operatorFlags, operatorSettings, refuseWhileRunning, type OperatorOptions } from "../../operator.ts";
import { plural, printResult } from "../../ui/output.ts";
import { withProgress } from "../../ui/progress.ts";

type Options = OperatorOptions & { force?: true; newMasterKey?: true };

export function addTo(program: Command): void {
  operatorFlags(program.command("restore"), [
    "keyrack restore --data-dir /var/lib/keyrack",
    "keyrack restore /mnt/backups/20261115T031500Z-0a1b2c --force",
  ])
    .description("Replace the database with a backup. Ends all sessions; nodes fetch the whole policy again.")
    .argument("[id]", "the backup's id or folder (default: the newest)")
    .option("--backup-dir <dir>", "folder that holds the backups")
    .option("--force", "replace an existing database; the old one is kept next to it")
    .option(
      "--new-master-key",
      "continue without the backup's master key, with the one here or a new one; unsent mail is dropped",
    )
    .action((id: string | undefined, options: Options) => restore(id, options));
}

async function restore(id: string | undefined, options: Options): Promise<void> {
  const settings = operatorSettings(options);
  await refuseWhileRunning(resolve(settings.data_dir), "restore");
  const { restoreOffline } = await import("../../../server/offline.ts");
  const restored = await withProgress((onProgress) =>
    restoreOffline({
      settings,
      log: createLog({ level: "error", pretty: process.stderr.isTTY }),
      backup: id,
      force: options.force === true,
      newMasterKey: options.newMasterKey === true,
      allowNetworkFs: options.allowNetworkFs === true,
      onProgress,
    }),
  );
  printResult(options, { json: restored, quiet: restored.backup_id, human: restoreReport(restored) });
}

function restoreReport(restored: Restored): string {
  const { revoked_after_backup: revoked, revived, released, resumed } = restored;
  const { sessions_ended, tokens_ended, invites_ended } = restored;
  const lines = [
    `Restored backup ${restored.backup_id} of ${restored.backup_created_at}.`,
    `  Ended ${plural(sessions_ended, "session")}, ${plural(tokens_ended, "one-time token")} and ${plural(invites_ended, "open invitation")}.`,
    "  Raised every project's policy version: nodes fetch the whole policy at their next poll.",
  ];
  if (restored.replaced) {
    lines.push(`  The replaced database is kept as ${restored.replaced}. Delete it when you no longer need it.`);
    const work = revived.length === 1 ? "works" : "work";
    if (revoked === null) lines.push("  It could not be read, so keys revoked after the backup are not known.");
    else lines.push(`  Keys revoked after the backup: ${revoked}. Of these, ${revived.length} ${work} again.`);
    const { disabled_after_backup: disabled, suspended_after_backup: suspended } = restored;
    if (disabled || suspended)
      lines.push(`  Keys disabled after the backup: ${disabled}. Tenants suspended after it: ${suspended}.`);
    const { narrowed_after_backup: narrowed } = restored;
    if (narrowed) lines.push(`  Keys and tenants confined to networks after the backup: ${narrowed}.`);
    const { members_returned: members, projects_returned: projects, tenants_returned: tenants } = restored;
    if (members || projects || tenants)
      lines.push(
        `  Removed, demoted or deleted after the backup and back again: ${plural(members ?? 0, "member")}, ${plural(projects ?? 0, "project")}, ${plural(tenants ?? 0, "tenant")}.`,
      );
    lines.push(...quotaLines(restored));
  }
  if (revived.length > 0) lines.push("  Revoke them now:", ...revived.map(revokeCommand));
  if (resumed.length > 0) lines.push("  Disable or suspend them again:", ...resumed.map(pauseCommand));
  if (restored.widened.length > 0) lines.push("  Confine them again:", ...restored.widened.map(confineCommand));
  if (released.length > 0)
    lines.push(
      "  Keys reported as leaked after the backup are no longer quarantined. Revoke them now:",
      ...released.map(revokeCommand),
    );
  if (restored.new_master_key) {
    const keys = restored.master_key_created
      ? "Created new master, signing and checkpoint keys."
      : "Kept the master key that is here, and created new signing and checkpoint keys.";
    lines.push(`  ${keys} Dropped ${plural(restored.mail_dropped, "unsent message")}.`);
  }
  return lines.join("\n");
}

function quotaLines({ balances_moved, grants_lost, grants_revived, revived_grants }: Restored): string[] {
  const lines: string[] = [];
  if (balances_moved)
    lines.push(
      `  Balances of quotas that are no longer as they were: ${balances_moved}. Units spent after the backup can be spent again.`,
    );
  if (grants_lost) lines.push(`  Grants created after the backup and lost: ${grants_lost}. --json lists them.`);
  if (grants_revived)
    lines.push(
      `  Grants voided after the backup that can be spent again: ${grants_revived}. Void them now:`,
      ...revived_grants.map(({ id }) => `    keyrack quota void ${id}`),
    );
  return lines;
}

function confineCommand({ id, kind, allowed_cidrs }: Restored["widened"][number]): string {
  const flags = (JSON.parse(allowed_cidrs) as string[]).map((cidr) => ` --allowed-cidrs ${cidr}`);
  return `    keyrack ${kind === "api_keys" ? "key" : "tenant"} update ${id} --ip-mode enforce${flags.join("")}`;
}

function pauseCommand({ id, kind }: Restored["resumed"][number]): string {
  return `    keyrack ${kind === "api_keys" ? "key disable" : "tenant suspend"} ${id}`;
}

function revokeCommand({ id, kind }: Restored["revived"][number]): string {
  return `    keyrack ${kind === "api_keys" ? "key" : "secret-key"} revoke ${id}`;
}
