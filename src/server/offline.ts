// Operator work on a deployment that no server is running on: any operator command, restore, database copy and rotation
// of the master key. Each takes the locks, opens what it needs and closes it again.
import { existsSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { copyDatabase, type CopiedDatabase } from "../backup/database-copy.ts";
import { backupDir } from "../backup/files.ts";
import { restoreBackup, type Restored } from "../backup/restore.ts";
import { serverUrl } from "../config/server-url.ts";
import { BadSetting, type Settings } from "../config/settings.ts";
import type { Services } from "../domain/core/context.ts";
import { reseal, type Resealed } from "../domain/vault/master-key.ts";
import type { Log } from "../platform/log.ts";
import { preferNativeFolders } from "../platform/native-addons.ts";
import { withMaintenance } from "../store/postgres/maintenance.ts";
import { assertNotInUse } from "../store/postgres/restore.ts";
import type { OnProgress } from "../store/progress.ts";
import { DataDirInUse, lockDatabaseFile, type DataDirLock } from "../store/sqlite/lock.ts";
import type { DatabaseTarget } from "../store/target.ts";
import { databaseTarget, lockSqlite, openDataDir, refuseRootOnForeignDir, requireDatabase } from "./data-dir.ts";
import { exitOnFatal, openInstance, type InstanceOptions } from "./instance.ts";
import { createNextMasterKey, findVault } from "./master-key.ts";
import { socketPath } from "./operator-socket/protocol.ts";
import { placeOf, toStartRefused } from "./start-refused.ts";

export type OfflineInstance = {
  readonly services: Services;
  /** The id of the backup that was made because opening it migrated the database. */
  readonly migrationBackup: string | null;
  close(): Promise<void>;
};

/** Why an operator command cannot reach the server that holds the lock. */
const NO_SOCKET =
  "Its path is too long for the socket of operator commands: stop the server, or move the data dir to a shorter path.";

/** An instance without a listener. Refused while a server holds the data dir and, by default, on an older schema. */
export async function openOffline(given: InstanceOptions): Promise<OfflineInstance> {
  const options: InstanceOptions = { migrate: "never", ...given };
  const { settings } = options;
  return withStartRefused(settings, async () => {
    const dir = resolve(settings.data_dir);
    refuseRootOnForeignDir(dir);
    const target = databaseTarget(settings, dir);
    if (target.kind === "sqlite") requireDatabase(target.file);
    const instance = await openUnlistened(options).catch((error: unknown) => {
      if (error instanceof DataDirInUse && socketPath(dir) === null)
        throw new DataDirInUse(`${error.message} ${NO_SOCKET}`);
      throw error;
    });
    // For links, in which a wildcard address cannot be used.
    const host = ["0.0.0.0", "::"].includes(settings.host) ? "localhost" : settings.host;
    instance.services.publicUrl ||= serverUrl({ ...settings, host }, settings.port);
    return instance;
  });
}

async function openUnlistened(options: InstanceOptions): Promise<OfflineInstance> {
  const opened = new AsyncDisposableStack();
  try {
    const fatal = exitOnFatal(placeOf(options.settings));
    const { services, migrationBackup } = await openInstance({ fatal, ...options }, opened, { bootstrap: false });
    return { services, migrationBackup: migrationBackup?.id ?? null, close: () => opened.disposeAsync() };
  } catch (error) {
    await opened.disposeAsync().catch(() => {}); // the first error says why
    throw error;
  }
}

export type RestoreRequest = {
  settings: Settings;
  log: Log;
  /** An id, the path of a backup's folder, or undefined for the newest. */
  backup: string | undefined;
  force: boolean;
  newMasterKey: boolean;
  allowNetworkFs?: boolean;
  onProgress: OnProgress;
};

export function restoreOffline({ settings, log, ...request }: RestoreRequest): Promise<Restored> {
  return withStartRefused(settings, async () => {
    refuseRootOnForeignDir(resolve(settings.data_dir));
    const dir = openDataDir(settings);
    preferNativeFolders([settings.cache_dir, dir]);
    const target = databaseTarget(settings, dir);
    const lock = target.kind === "sqlite" ? lockSqlite(dir, target.file, request) : undefined;
    // Finishing a restore writes to the database alone: Redis may still be in use, or gone. It also migrates an older
    // backup.
    const alone: Settings = { ...settings, redis_url: null, idempotency_store: "database" };
    const open = (database_url: DatabaseTarget) =>
      openUnlistened({ settings: { ...alone, database_url }, log, locked: true, migrate: "auto" });
    try {
      const options = {
        ...request,
        log,
        dataDir: dir,
        target,
        open,
        backupDir: backupDir({ ...settings, data_dir: dir }),
        masterKeyFingerprint: () => findVault(settings, dir)?.fingerprint ?? null,
      };
      return await withMaintenance(target, (assertAlone) => restoreBackup({ ...options, assertAlone }));
    } finally {
      lock?.release();
    }
  });
}

export type CopyRequest = {
  settings: Settings;
  to: { kind: "sqlite"; file: string } | { kind: "postgres"; url: string };
  dryRun: boolean;
  allowNetworkFs?: boolean;
  onProgress: OnProgress;
};

/** Copies the database of the settings into another one. */
export function copyOffline(request: CopyRequest): Promise<CopiedDatabase> {
  const { settings, to, dryRun, onProgress } = request;
  return withStartRefused(settings, async () => {
    const dir = resolve(settings.data_dir);
    preferNativeFolders([settings.cache_dir, dir]);
    const from = databaseTarget(settings, dir);
    const target: DatabaseTarget =
      to.kind === "sqlite" ? { kind: "sqlite", file: resolve(to.file) } : { ...to, pool: 1 };
    if (target.kind === "sqlite") refuseRootOnForeignDir(dirname(target.file));
    const lock = lockForCopy(from, dryRun ? null : target, dir, request);
    try {
      return await withMaintenance(from, (assertAlone) =>
        copyDatabase({ from, to: target, dryRun, assertAlone, onProgress }),
      );
    } finally {
      lock?.release();
    }
  });
}

/** Locks the SQLite database of a copy, at either end, but creates no folder. `to` is null if nothing is written. */
function lockForCopy(
  from: DatabaseTarget,
  to: DatabaseTarget | null,
  dir: string,
  request: CopyRequest,
): DataDirLock | undefined {
  if (from.kind === "sqlite")
    return existsSync(from.file)
      ? lockSqlite(existsSync(dir) ? dir : dirname(from.file), from.file, request)
      : undefined;
  return to?.kind === "sqlite" && existsSync(dirname(to.file)) ? lockDatabaseFile(to.file) : undefined;
}

export type Rotated = { object: "master_key_rotation"; old_key_file: string; resealed: Resealed };

/**
 * Creates the new key on disk, reseals every sealed value in one transaction, then replaces the old key. Interrupted at
 * any point, the next start finds the key that the database is sealed with.
 */
export function rotateMasterKey(settings: Settings, log: Log, allowNetworkFs = false): Promise<Rotated> {
  return withStartRefused(settings, async () => {
    const dir = resolve(settings.data_dir);
    if (settings.idempotency_store !== "database")
      throw new BadSetting("Values sealed in Redis cannot be resealed: use KEYRACK_IDEMPOTENCY_STORE=database first.");
    const target = databaseTarget(settings, dir);
    return withMaintenance(target, async (assertAlone) => {
      if (target.kind === "postgres") await assertNotInUse(target);
      const offline = await openOffline({ settings, log, locked: target.kind === "postgres", allowNetworkFs });
      try {
        const next = createNextMasterKey(settings, dir);
        const resealed = await reseal(offline.services, next.vault, assertAlone);
        return { object: "master_key_rotation", old_key_file: next.promote(), resealed };
      } finally {
        await offline.close();
      }
    });
  });
}

async function withStartRefused<T>(settings: Settings, work: () => Promise<T>): Promise<T> {
  process.umask(0o077);
  try {
    return await work();
  } catch (error) {
    throw toStartRefused(error, placeOf(settings));
  }
}
