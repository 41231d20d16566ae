// `keyrack backup create/list/verify/prune/test`: in the running instance, else here. Looking at backups needs no database.
import { resolve } from "node:path";
import type { Command } from "commander";
import type { Settings } from "../../config/settings.ts";
import type { CreatedBackup } from "../../backup/create.ts";
import type { BackupView } from "../../backup/list.ts";
import type { RestoreTest } from "../../backup/restore-test.ts";
import type { Pruned } from "../../backup/retention.ts";
import type { BackupCheck } from "../../backup/verify.ts";
import type { Args, OperationName } from "../../server/operator-socket/operations.ts";
import { operate, operatorFlags, operatorSettings, show, type OperatorOptions } from "../operator.ts";
import { createSteps } from "../ui/progress-steps.ts";
import { ExitError, table } from "../ui/output.ts";

type Options = OperatorOptions & { backupDir?: string };
type Tell = (step: unknown) => void;

/** A path is one of this shell's: the instance that is asked stands in another folder. */
function named(id: string | undefined): string | undefined {
  return id?.includes("/") ? resolve(id) : id;
}

function flags(command: Command, examples: readonly [string, string]): Command {
  return operatorFlags(command, examples).option("--backup-dir <dir>", "where backups lie");
}

export function addBackupCommands(program: Command): void {
  const backup = program.command("backup").description("Backups, and whether they are any good.");
  flags(backup.command("create"), ["keyrack backup create", "keyrack backup create --json --data-dir /var/lib/keyrack"])
    .description("Make a backup now, beside a running server or without one. It is checked before it gets its name.")
    .action((options: Options) => create(options));
  flags(backup.command("list"), ["keyrack backup list", "keyrack backup list --backup-dir /mnt/backups"])
    .description("Every backup, newest first, with its state: good, unproven (no restore test yet), failed, damaged.")
    .action((options: Options) => list(options));
  flags(backup.command("verify"), ["keyrack backup verify", "keyrack backup verify 20261115T031500Z-0a1b2c"])
    .description("Hold a backup against its manifest and look at all of it. Exit 4 when something is wrong.")
    .argument("[id]", "the backup, or the path of its folder (default: the newest)")
    .action((id: string | undefined, options: Options) => verify(id, options));
  flags(backup.command("prune"), ["keyrack backup prune --dry-run", "keyrack backup prune"])
    .description("Keep the newest of each of 7 days, 4 weeks and 12 months, and remove the others.")
    .option("--dry-run", "only say what would go")
    .action((options: Options & { dryRun?: true }) => prune(options));
  flags(backup.command("test"), ["keyrack backup test", "keyrack backup test 20261115T031500Z-0a1b2c"])
    .description("Restore a backup into a scratch place and check all of it. Exit 4 when it is not what it should be.")
    .argument("[id]", "the backup, or the path of its folder (default: the newest)")
    .action((id: string | undefined, options: Options) => test(id, options));
}

/** A bar while it runs; what comes after it begins on a clean line. */
async function withSteps<T>(work: (tell: Tell) => Promise<T>): Promise<T> {
  const steps = createSteps();
  try {
    return await work(steps.tell);
  } finally {
    steps.end();
  }
}

/** Asks the instance, which knows its own backup dir; where none runs, looks at the files without opening a database. */
async function look<T>(options: Options, op: OperationName, args: Args, here: Here<T>): Promise<T> {
  const { callInstance } = await import("../../server/operator-socket/client.ts");
  const settings = operatorSettings(options);
  const dir = resolve(settings.data_dir);
  return withSteps(async (tell) => {
    const asked = options.backupDir ? undefined : await callInstance(dir, op, args, tell);
    if (asked) return asked.value as T;
    const { preferNativeFolders } = await import("../../platform/native-addons.ts");
    preferNativeFolders([settings.cache_dir, dir]);
    return here({ ...settings, data_dir: dir }, tell);
  });
}
type Here<T> = (settings: Settings, tell: Tell) => Promise<T>;

export function bytesText(bytes: number | null): string {
  if (bytes === null) return "-";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(units.length - 1, Math.floor(Math.log2(Math.max(bytes, 1)) / 10));
  return `${(bytes / 1024 ** power).toFixed(power === 0 ? 0 : 1)} ${units[power]}`;
}

async function create(options: Options): Promise<void> {
  const made: CreatedBackup = await withSteps((tell) => operate(options, "backup.create", {}, tell));
  const proof =
    made.state === "good"
      ? "Its integrity, foreign keys and every audit chain were checked."
      : "It is unproven until keyrack backup test has restored it.";
  show(options, {
    json: made,
    quiet: made.id,
    human: `Made backup ${made.id} (${bytesText(made.bytes)}).\n${proof}\n  ${made.folder}`,
  });
  if (made.hook?.ok === false) throw new ExitError(`The backup is made, but its hook failed: ${made.hook.message}`, 1);
}

async function list(options: Options): Promise<void> {
  const data = await look<BackupView[]>(options, "backup.list", {}, async (settings) =>
    (await import("../../backup/list.ts")).viewBackups(settings),
  );
  const time = (text: string | null): string => text?.slice(0, 16).concat("Z") ?? "-";
  const rows = data.map((each) => [
    each.id,
    each.state,
    time(each.created_at),
    bytesText(each.bytes),
    String(each.schema_version ?? "-"),
    time(each.tested_at),
    each.problem ?? "",
  ]);
  show(options, {
    json: { object: "list", data },
    quiet: data.map(({ id }) => id).join("\n"),
    human:
      data.length === 0
        ? "There are no backups yet. Make one: keyrack backup create"
        : table([["ID", "STATE", "MADE", "SIZE", "SCHEMA", "TESTED", ""], ...rows]),
  });
}

async function verify(id: string | undefined, options: Options): Promise<void> {
  const checked = await look<BackupCheck>(options, "backup.verify", { id: named(id) }, async (settings, tell) =>
    (await import("../../backup/verify.ts")).verifyBackup(settings, id, tell),
  );
  const { findings } = checked;
  show(options, {
    json: checked,
    quiet: findings.join("\n"),
    human: checked.ok ? `Backup ${checked.id} is whole.` : findings.join("\n"),
  });
  if (!checked.ok) throw new ExitError(`Backup ${checked.id} is not what was written: ${findings[0]}.`, 4);
}

async function prune(options: Options & { dryRun?: true }): Promise<void> {
  const dryRun = options.dryRun === true;
  const pruned = await look<Pruned>(options, "backup.prune", { dry_run: dryRun }, async (settings) =>
    (await import("../../backup/retention.ts")).pruneBackups(settings, { dryRun }),
  );
  const { kept, removed } = pruned;
  const what = dryRun ? "Would remove" : "Removed";
  show(options, {
    json: pruned,
    quiet: removed.join("\n"),
    human: [`${what} ${removed.length}, kept ${kept.length}.`, ...removed.map((each) => `  ${each}`)].join("\n"),
  });
}

async function test(id: string | undefined, options: Options): Promise<void> {
  const tried: RestoreTest = await withSteps((tell) => operate(options, "backup.test", { id: named(id) }, tell));
  const good = `Backup ${tried.backup_id} restores: integrity, foreign keys, row counts and ${tried.chains} audit chains (${tried.audit_rows} rows) are right.`;
  show(options, {
    json: tried,
    quiet: tried.findings.join("\n"),
    human: tried.pass ? good : tried.findings.join("\n"),
  });
  if (!tried.pass) throw new ExitError(`Backup ${tried.backup_id} failed its restore test: ${tried.findings[0]}.`, 4);
}
