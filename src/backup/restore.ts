// Restores a backup into the database of the settings: prepared and checked beside the old one, then put in its place in
// one step, so that a restore that is cut short leaves the old database as it was. Never under a running instance.
// On PostgreSQL the step comes before the check, and is undone when that finds anything.
import { statSync } from "node:fs";
import type { Settings } from "../config/settings.ts";
import { findVault, openDataDir } from "../server/data-dir.ts";
import { assertChecksum, backupDir, BackupRefused, extract, findBackup, type Backup } from "./files.ts";
import { settleRestored, type PendingRestore, type Settled } from "./after-restore.ts";
import { databaseTarget, openInstance, takeLock, toStartRefused, type Closers } from "../server/instance.ts";
import type { Log } from "../platform/log.ts";
import { preferNativeFolders } from "../platform/native-addons.ts";
import { openStore } from "../store/database.ts";
import type { DatabaseTarget } from "../store/target.ts";
import { dropFact, writeFact } from "../store/queries/deployment.ts";
import { inspect } from "../store/offline/inspect.ts";
import type { OnProgress } from "../store/progress.ts";
import { loadMigrations } from "../store/schema/migrate.ts";
import { lostStops, readOverwritten, VERSION_JUMP, type Overwritten, type Stopped } from "../store/queries/restore.ts";
import { assertUnused, holdsTables, pendingWords, restoreDump, undoRestore } from "../store/postgres/restore.ts";
import { openSource } from "../store/offline/source.ts";
import { removeSqlite, swapSqlite } from "../store/sqlite/swap.ts";

export type RestoreOptions = {
  settings: Settings;
  log: Log;
  /** An id, the path of a backup's folder, or undefined for the newest. */
  backup: string | undefined;
  force: boolean;
  newMasterKey: boolean;
  tell: OnProgress;
};

export type Restored = Settled & {
  object: "restore";
  backup_created_at: string;
  /** Null where nothing was replaced, or where the replaced database could not be read. */
  revoked_after_backup: number | null;
  /** Keys that were revoked after the backup and work again. */
  revived: Stopped[];
  /** Keys that were reported as leaked after the backup and are out of their quarantine. */
  released: Stopped[];
  /** Where the replaced database is kept: a file, or a schema of the same database. */
  replaced: string | null;
  new_master_key: boolean;
};

type Job = { options: RestoreOptions; backup: Backup; dir: string };

export async function restoreBackup(options: RestoreOptions): Promise<Restored> {
  process.umask(0o077);
  try {
    const dir = openDataDir(options.settings);
    preferNativeFolders([options.settings.cache_dir, dir]);
    const backup = findBackup(backupDir({ ...options.settings, data_dir: dir }), options.backup);
    const target = databaseTarget(options.settings, dir);
    assertFits(backup, target);
    assertMasterKey({ options, backup, dir });
    const job = { options, backup, dir };
    return await (target.kind === "sqlite" ? intoSqlite(job, target) : intoPostgres(job, target));
  } catch (error) {
    throw toStartRefused(error);
  }
}

function assertFits({ id, manifest }: Backup, target: DatabaseTarget): void {
  if (manifest.dialect !== target.kind)
    throw new BackupRefused(
      `Backup ${id} is of ${named(manifest.dialect)} and the settings name ${named(target.kind)}. Restore it where it came from, then use keyrack db copy.`,
      2,
    );
  const newest = loadMigrations(target.kind).at(-1)?.version ?? 0;
  if (manifest.schema_version > newest)
    throw new BackupRefused(
      `Backup ${id} has schema ${manifest.schema_version}, which is newer than this version of Keyrack (${newest}). Use a newer Keyrack.`,
      2,
    );
}

const named = (kind: DatabaseTarget["kind"]): string => (kind === "sqlite" ? "SQLite" : "PostgreSQL");

/** Without the key that sealed them, signing keys and unsent mail are lost: only when the operator says so. */
function assertMasterKey({ options: { settings, newMasterKey }, backup, dir }: Job): void {
  const wanted = backup.manifest.master_key_fingerprint;
  if (newMasterKey || wanted === null) return;
  const vault = findVault(settings, dir);
  if (vault?.fingerprint === wanted) return;
  throw new BackupRefused(
    `${vault ? "The master key here is not the one" : "There is no master key here, and backups never hold it: bring the one"} this backup was made with. Set KEYRACK_MASTER_KEY_FILE to it, or add --new-master-key to go on without it (new signing keys, unsent mail dropped).`,
    2,
  );
}

function refuseUnlessForced({ options: { force } }: Job, where: string, keeps: string): void {
  if (force) return;
  throw new BackupRefused(
    `There is a database ${where} already. Add --force to replace it; the old one is kept as ${keeps}.`,
  );
}

/** To the millisecond: a backup may be restored twice within a second. */
const stampOf = (): string => new Date().toISOString().replace(/[-:.]/g, "");

async function intoSqlite(job: Job, target: Extract<DatabaseTarget, { kind: "sqlite" }>): Promise<Restored> {
  const { options, backup, dir } = job;
  const { file } = target;
  const lock = takeLock(dir, file, false);
  const fresh = `${file}.restoring`;
  const aside = `${file}.replaced-${stampOf()}`;
  const replaced = (statSync(file, { throwIfNoEntry: false })?.size ?? 0) > 0 ? aside : null;
  try {
    if (replaced) refuseUnlessForced(job, `at ${file}`, replaced);
    removeSqlite(fresh);
    await extract(backup, fresh, options.tell);
    const before = replaced ? await lookAtOld(job, target) : null;
    const restored: DatabaseTarget = { kind: "sqlite", file: fresh };
    const told = await compare(restored, before);
    await askToSettle(restored, pendingOf(job, before));
    const settled = await settleIn(job, { ...options.settings, database_url: restored });
    await assertSound(restored, backup, options.tell);
    swapSqlite(fresh, file, aside);
    return report(job, settled, told, replaced);
  } finally {
    removeSqlite(fresh);
    lock.release();
  }
}

async function intoPostgres(job: Job, target: Extract<DatabaseTarget, { kind: "postgres" }>): Promise<Restored> {
  const { options, backup } = job;
  const replaced = (await holdsTables(target)) ? `keyrack_replaced_${stampOf().toLowerCase()}` : null;
  if (replaced) refuseUnlessForced(job, "there", `schema ${replaced}`);
  await assertUnused(target);
  const before = replaced ? await lookAtOld(job, target) : null;
  const after = pendingWords(JSON.stringify(pendingOf(job, before)), options.newMasterKey);
  await assertChecksum(backup, options.tell);
  await restoreDump(target.url, backup, { replaced, after }, options.tell);
  try {
    await assertSound(target, backup, options.tell);
  } catch (error) {
    await undoRestore(target.url, replaced);
    throw error;
  }
  const told = await compare(target, before);
  const settled = await settleIn(job, options.settings);
  return report(job, settled, told, replaced);
}

async function lookAtOld({ options, backup }: Job, target: DatabaseTarget): Promise<Overwritten | null> {
  try {
    const source = await openSource(target);
    try {
      return await readOverwritten(source, Date.parse(backup.manifest.created_at));
    } finally {
      await source.close();
    }
  } catch (error) {
    options.log.warn("the database that is replaced cannot be read", { error: (error as Error).message });
    return null;
  }
}

type Told = { lost: number; revived: Stopped[]; released: Stopped[] } | null;

async function compare(restored: DatabaseTarget, before: Overwritten | null): Promise<Told> {
  if (!before) return null;
  const source = await openSource(restored);
  try {
    const { revived: released } = await lostStops(source, before.quarantined, "quarantined_at");
    return { ...(await lostStops(source, before.revoked, "revoked_at")), released };
  } finally {
    await source.close();
  }
}

/** The replaced database may have been restored before, from the same backup: its versions must not come again either. */
function pendingOf({ options, backup }: Job, before: Overwritten | null): PendingRestore {
  const reached = (before?.versions ?? []).filter(({ policy_version }) => policy_version > VERSION_JUMP);
  return { backup_id: backup.id, new_master_key: options.newMasterKey, reached };
}

/** Brings the schema up to date and writes down, in the database itself, that its restore is to be finished. */
async function askToSettle(target: DatabaseTarget, pending: PendingRestore): Promise<void> {
  const store = await openStore(target, { now: Date.now, fatal: () => {} });
  try {
    await store.write({
      chains: [],
      work: async (tx) => {
        await writeFact.run(tx, { name: "restore_pending", value: JSON.stringify(pending) });
        if (pending.new_master_key) await dropFact.run(tx, { name: "master_key_fingerprint" });
        return { value: null, entries: [] };
      },
    });
  } finally {
    await store.close();
  }
}

async function settleIn({ options }: Job, settings: Settings): Promise<Settled> {
  const opened: Closers = [];
  const alone: Settings = { ...settings, redis_url: null, idempotency_store: "database" };
  try {
    const { services } = await openInstance({ settings: alone, log: options.log, locked: true }, opened, false);
    const settled = await settleRestored(services);
    if (!settled) throw new Error("the restored database does not know that it is one");
    return settled;
  } finally {
    for (const close of opened.toReversed()) await close();
  }
}

async function assertSound(target: DatabaseTarget, { id }: Backup, tell: OnProgress): Promise<void> {
  const { findings } = await inspect(target, tell);
  if (findings.length > 0)
    throw new BackupRefused(`Backup ${id} does not restore to a sound database: ${findings[0]}.`, 4);
}

function report({ options, backup }: Job, settled: Settled, told: Told, replaced: string | null): Restored {
  return {
    object: "restore",
    ...settled,
    backup_created_at: backup.manifest.created_at,
    revoked_after_backup: told?.lost ?? null,
    revived: told?.revived ?? [],
    released: told?.released ?? [],
    replaced,
    new_master_key: options.newMasterKey,
  };
}
