// The backup made before a SQLite database is migrated: the way back from an upgrade, because an older binary refuses
// the new schema. It is taken before anything of this version has touched the database, so nothing is recorded in it
// until the migration is done; the operator's hook does not run for it.
import { rmSync } from "node:fs";
import type { Settings } from "../config/settings.ts";
import { SYSTEM } from "../domain/core/actor.ts";
import type { Services } from "../domain/core/context.ts";
import { mutate } from "../domain/core/mutate.ts";
import { vacuumInto } from "../store/offline/thread-tasks.ts";
import { threads } from "../store/threads/pool.ts";
import type { DatabaseTarget } from "../store/target.ts";
import {
  backupDir,
  isOwn,
  isPreMigration,
  listBackups,
  newBackupId,
  type Backup,
  type BackupSettings,
  type Manifest,
} from "./files.ts";
import { isUsable } from "./list.ts";
import { deploymentIdOf } from "./owner.ts";
import { pruneBackups } from "./retention.ts";
import { copySqliteDatabase, createdEvent, writeBackup } from "./write.ts";

const quiet = (): void => {};

/** `to`: the schema that the database is migrated to next. */
export async function backUpBeforeMigration(
  settings: BackupSettings & Pick<Settings, "backup_every" | "disk_reserve_mb">,
  { file, to, now }: { file: string; to: number; now: number },
): Promise<Manifest> {
  // To make room. What cannot be removed must not prevent the backup.
  if (settings.backup_every !== null) await pruneOffline(settings, file, now).catch(quiet);
  const { manifest } = await writeBackup({
    dir: backupDir(settings),
    id: newBackupId(now, to),
    now,
    dialect: "sqlite",
    // Nothing else runs yet, and the start waits for it: a thread of normal priority.
    copy: (partial) =>
      copySqliteDatabase(
        { ...settings, database: file },
        partial,
        (copy) => vacuumInto(file, copy, quiet, threads),
        quiet,
        threads,
      ),
    onProgress: quiet,
  });
  removeEqual(backupDir(settings), manifest);
  return manifest;
}

async function pruneOffline(settings: BackupSettings, file: string, now: number): Promise<void> {
  const deploymentId = await deploymentIdOf({ kind: "sqlite", file }, backupDir(settings));
  await pruneBackups(settings, { deploymentId, now });
}

/** A migration that fails at every start must not fill the disk: of backups with the same bytes, the newest stays. */
function removeEqual(dir: string, { id, sha256 }: Manifest): void {
  for (const { id: other, folder, manifest } of listBackups(dir))
    if (other !== id && isPreMigration(other) && manifest?.sha256 === sha256)
      rmSync(folder, { recursive: true, force: true });
}

/** Records it in the deployment's audit chain, after the migration. */
export function recordMigrationBackup(services: Services, manifest: Manifest): Promise<null> {
  return mutate({ services, actor: SYSTEM }, { workspace_id: null }, async () => ({
    value: null,
    events: [createdEvent(manifest)],
  }));
}

/** The newest usable backup of this deployment that a binary of this schema can restore. */
export async function findWayBack(
  settings: BackupSettings,
  target: DatabaseTarget,
  schema: number,
): Promise<Backup | undefined> {
  const dir = backupDir(settings);
  const deploymentId = await deploymentIdOf(target, dir);
  const fits = (backup: Backup): boolean =>
    backup.manifest.dialect === target.kind &&
    isOwn(backup, deploymentId) &&
    backup.manifest.schema_version <= schema &&
    isUsable(backup);
  return listBackups(dir).find((each): each is Backup => each.manifest !== null && fits(each));
}
