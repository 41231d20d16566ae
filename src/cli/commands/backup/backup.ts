// `keyrack backup create/list/verify/prune/test`: in the running instance, else in this process. Only `create` and
// `test` open it for writing.
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import type { Command } from "commander";
import type { Settings } from "../../../config/settings.ts";
import type { CreatedBackup } from "../../../backup/create.ts";
import type { BackupView } from "../../../backup/list.ts";
import type { RestoreTest } from "../../../backup/restore-test.ts";
import type { Pruned } from "../../../backup/retention.ts";
import type { BackupCheck } from "../../../backup/verify.ts";
import type { Args, OperatorCommandName } from "../../../server/operator-commands.ts";
import { operate, operatorFlags, operatorSettings, type OperatorOptions } from "../../operator.ts";
import { ExitError, minute, plural, printResult, table, type Examples } from "../../ui/output.ts";
import { withProgress, type OnProgress } from "../../ui/progress.ts";

function backupFlags(command: Command, worked: Examples, quiet?: string): Command {
  return operatorFlags(command, worked, quiet).option("--backup-dir <dir>", "folder that holds the backups");
}

export function addTo(program: Command): void {
  const backup = program.command("backup");
  backupFlags(backup.command("create"), [
    "keyrack backup create",
    "keyrack backup create --json --data-dir /var/lib/keyrack",
  ])
    .description("Create a backup now, with or without a running server. It is checked before it is listed.")
    .action((options: OperatorOptions) => create(options));
  backupFlags(backup.command("list"), ["keyrack backup list", "keyrack backup list --backup-dir /mnt/backups"])
    .description("List backups, newest first, with their state: good, unproven (not restored yet), failed or damaged.")
    .action((options: OperatorOptions) => list(options));
  backupFlags(
    backup.command("verify"),
    ["keyrack backup verify", "keyrack backup verify 20261115T031500Z-0a1b2c"],
    "print only problems",
  )
    .description("Check a backup against its manifest, byte by byte. Exit 4 if it is damaged.")
    .argument("[id]", "the backup's id or folder (default: the newest)")
    .action((id: string | undefined, options: OperatorOptions) => verify(id, options));
  backupFlags(
    backup.command("prune"),
    ["keyrack backup prune --dry-run", "keyrack backup prune"],
    "print only the ids of removed backups",
  )
    .description("Keep the newest backup of each of 7 days, 4 weeks and 12 months, and remove the others.")
    .option("--dry-run", "only show what would be removed")
    .action((options: OperatorOptions & { dryRun?: true }) => prune(options));
  backupFlags(
    backup.command("test"),
    ["keyrack backup test", "keyrack backup test 20261115T031500Z-0a1b2c"],
    "print only problems",
  )
    .description("Restore a backup into a scratch database and check all of it. Exit 4 if the test fails.")
    .argument("[id]", "the backup's id or folder (default: the newest)")
    .action((id: string | undefined, options: OperatorOptions) => test(id, options));
}

/** Resolves a path here: the running instance may have another working directory. */
function absoluteId(id: string | undefined): string | undefined {
  return id?.includes("/") ? resolve(id) : id;
}

/** Asks the running instance, which knows its backup dir; without one, reads the backup files without a database. */
async function askOrReadFiles<T>(
  options: OperatorOptions,
  op: OperatorCommandName,
  args: Args,
  local: Local<T>,
): Promise<T> {
  const { callInstance } = await import("../../../server/operator-socket/client.ts");
  const settings = operatorSettings(options);
  const dir = resolve(settings.data_dir);
  return withProgress(async (onProgress) => {
    const reply = options.backupDir ? undefined : await callInstance(dir, op, args, onProgress);
    if (reply) return reply.value as T;
    const { preferNativeFolders } = await import("../../../platform/native-addons.ts");
    preferNativeFolders([settings.cache_dir, dir]);
    requireFolder(settings);
    return local({ ...settings, data_dir: dir }, onProgress);
  });
}

/** A mistyped folder must not look like one without backups. */
function requireFolder({ backup_dir, data_dir }: Settings): void {
  const folder = resolve(backup_dir || data_dir);
  if (!existsSync(folder))
    throw new ExitError(`There is no folder ${folder}. Set --${backup_dir ? "backup" : "data"}-dir.`, 2);
}

type Local<T> = (settings: Settings, onProgress: OnProgress) => Promise<T>;

function formatBytes(bytes: number | null): string {
  if (bytes === null) return "-";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(bytes, 1)) / 10));
  return `${(bytes / 1024 ** power).toFixed(power === 0 ? 0 : 1)} ${units[power]}`;
}

async function create(options: OperatorOptions): Promise<void> {
  const created: CreatedBackup = await withProgress((onProgress) => operate(options, "backup.create", {}, onProgress));
  const checked =
    created.state === "good"
      ? "Checked: integrity, foreign keys and every audit chain."
      : "Not yet proven: run keyrack backup test to restore it once.";
  printResult(options, {
    json: created,
    quiet: created.id,
    human: `Created backup ${created.id} (${formatBytes(created.bytes)}).\n${checked}\n  ${created.folder}`,
  });
  if (created.hook?.ok === false)
    throw new ExitError(`The backup was created, but its hook failed: ${created.hook.message}`, 1);
}

async function list(options: OperatorOptions): Promise<void> {
  const data = await askOrReadFiles<BackupView[]>(options, "backup.list", {}, async (settings) =>
    (await import("../../../backup/list.ts")).viewBackups(settings),
  );
  const rows = data.map((each) => [
    each.id,
    each.state,
    minute(each.created_at),
    formatBytes(each.bytes),
    String(each.schema_version ?? "-"),
    minute(each.tested_at),
    each.problem ?? "",
  ]);
  printResult(options, {
    json: { object: "list", data },
    quiet: data.map(({ id }) => id).join("\n"),
    human:
      data.length === 0
        ? "No backups yet. Create one: keyrack backup create"
        : table([["ID", "STATE", "CREATED", "SIZE", "SCHEMA", "TESTED", ""], ...rows]),
  });
}

async function verify(id: string | undefined, options: OperatorOptions): Promise<void> {
  const checked = await askOrReadFiles<BackupCheck>(
    options,
    "backup.verify",
    { id: absoluteId(id) },
    async (settings, onProgress) => (await import("../../../backup/verify.ts")).verifyBackup(settings, id, onProgress),
  );
  const { findings } = checked;
  printResult(options, {
    json: checked,
    quiet: findings.join("\n"),
    human: checked.ok ? `Backup ${checked.id} verified.` : findings.join("\n"),
  });
  if (!checked.ok)
    throw new ExitError(`Backup ${checked.id} is damaged: ${plural(findings.length, "problem")} found.`, 4);
}

async function prune(options: OperatorOptions & { dryRun?: true }): Promise<void> {
  const dryRun = options.dryRun === true;
  const pruned = await askOrReadFiles<Pruned>(options, "backup.prune", { dry_run: dryRun }, async (settings) => {
    const { databaseTarget } = await import("../../../server/data-dir.ts");
    const { deploymentIdOf } = await import("../../../backup/owner.ts");
    const { backupDir } = await import("../../../backup/files.ts");
    const deploymentId = await deploymentIdOf(databaseTarget(settings, settings.data_dir), backupDir(settings));
    return (await import("../../../backup/retention.ts")).pruneBackups(settings, { deploymentId, dryRun });
  });
  const { kept, removed } = pruned;
  const summary = `${dryRun ? "Would remove" : "Removed"} ${plural(removed.length, "backup")}, kept ${kept.length}.`;
  printResult(options, {
    json: pruned,
    quiet: removed.join("\n"),
    human: [summary, ...removed.map((each) => `  ${each}`)].join("\n"),
  });
}

async function test(id: string | undefined, options: OperatorOptions): Promise<void> {
  const tested: RestoreTest = await withProgress((onProgress) =>
    operate(options, "backup.test", { id: absoluteId(id) }, onProgress),
  );
  const chains = `${plural(tested.chains, "audit chain")} (${plural(tested.audit_rows, "row")})`;
  printResult(options, {
    json: tested,
    quiet: tested.findings.join("\n"),
    human: tested.pass
      ? `Backup ${tested.backup_id} passed its restore test: integrity, foreign keys, row counts and ${chains}.`
      : tested.findings.join("\n"),
  });
  if (!tested.pass)
    throw new ExitError(
      `Backup ${tested.backup_id} failed its restore test: ${plural(tested.findings.length, "problem")} found.`,
      4,
    );
}
