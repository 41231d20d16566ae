// Restores a backup into a database that no server uses. On SQLite the restored file is prepared and checked beside the
// old one and then swapped in, so that an interrupted restore leaves the old database in place. On PostgreSQL the swap
// is one transaction that comes before the check; a failed check undoes it.
import { existsSync, renameSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Services } from "../domain/core/context.ts";
import { record } from "../domain/core/record.ts";
import { fsyncDir } from "../platform/fsync.ts";
import type { Log } from "../platform/log.ts";
import { openStore } from "../store/database.ts";
import { FACTS_OF_MASTER_KEY } from "../store/master-key-facts.ts";
import { listTables, readDeploymentId, readFactOf } from "../store/offline/contents.ts";
import { inspect } from "../store/offline/thread-tasks.ts";
import type { Source } from "../store/offline/source.ts";
import { assertNotInUse, hasTables, restorePendingSql, restoreDump, undoRestore } from "../store/postgres/restore.ts";
import type { OnProgress } from "../store/progress.ts";
import { dropFact, writeFact } from "../store/queries/deployment.ts";
import { readReplacedState, readVersions, VERSION_JUMP, type ReplacedState } from "../store/queries/restore.ts";
import { loadMigrations } from "../store/schema/migrate.ts";
import { removeSqlite, swapSqlite } from "../store/sqlite/swap.ts";
import { dialectName, type DatabaseTarget, type PostgresTarget } from "../store/target.ts";
import { finishRestore, type FinishedRestore, type PendingRestore } from "./after-restore.ts";
import { assertChecksum, BackupRefused, chooseBackup, extract, type Backup } from "./files.ts";
import { newDeploymentId, soleDeploymentId } from "./owner.ts";
import { findLostChanges, readReplaced, type LostChanges } from "./replaced.ts";

type RestoreOptions = {
  dataDir: string;
  backupDir: string;
  /** An id, the path of a backup's folder, or undefined for the newest. */
  backup: string | undefined;
  /** The database to replace. The caller holds its lock. */
  target: DatabaseTarget;
  /** Replace a database that is not empty. */
  force: boolean;
  /** Continue without the master key of the backup. */
  newMasterKey: boolean;
  /** Fingerprint of the master key in the data dir; null if there is none. */
  masterKeyFingerprint(): string | null;
  /** Opens the restored database as an instance, in which the restore is finished. */
  open(target: DatabaseTarget): Promise<{ services: Services; close(): Promise<void> }>;
  /** Throws if another process may be using the database, right before it is replaced. */
  assertAlone: () => Promise<void>;
  log: Log;
  onProgress: OnProgress;
};

export type Restored = FinishedRestore &
  LostChanges & {
    object: "restore";
    backup_created_at: string;
    /** Where the replaced database is kept: a file, or a schema of the same database. */
    replaced: string | null;
    new_master_key: boolean;
    /** With `new_master_key`: whether there was no key file, so that one was created. */
    master_key_created: boolean;
  };

type RestorePlan = {
  createsMasterKey: boolean;
  options: RestoreOptions;
  backup: Backup;
  /** The id that the restored database gets; null if it keeps that of the backup. */
  deploymentId: string | null;
};

const hasDatabase = (target: DatabaseTarget): boolean =>
  target.kind === "postgres" || (statSync(target.file, { throwIfNoEntry: false })?.size ?? 0) > 0;

const readOwner = async (source: Source): Promise<{ id: string | null; hasTables: boolean }> => ({
  id: await readDeploymentId(source),
  hasTables: (await listTables(source)).length > 0,
});

export async function restoreBackup(options: RestoreOptions): Promise<Restored> {
  const { target } = options;
  const replaced = hasDatabase(target) ? await readReplaced(options, readOwner) : null;
  const deploymentId = replaced?.id ?? null;
  const backup = chooseBackup(options.backupDir, options.backup, {
    dialect: target.kind,
    deploymentId: deploymentId ?? (options.backup === undefined ? soleDeploymentId(options.backupDir) : null),
    now: Date.now(),
  });
  assertRestorable(backup, target);
  assertMasterKey(options, backup);
  const createsMasterKey = options.newMasterKey && options.masterKeyFingerprint() === null;
  // A database with tables and without an id has made no backup: this one is of another deployment, and so is its id.
  const isOther = replaced?.hasTables === true && Boolean(backup.manifest.deployment_id);
  const plan = {
    options,
    backup,
    createsMasterKey,
    deploymentId: deploymentId ?? (isOther ? newDeploymentId() : null),
  };
  return target.kind === "sqlite" ? restoreSqlite(plan, target.file) : restorePostgres(plan, target);
}

/**
 * The restored log does not extend notes that were signed after the backup, or with the replaced master key. Called
 * before the replacement and before new notes are signed. Returns how to undo it.
 */
function setCheckpointsAside(dataDir: string): () => void {
  const folder = join(dataDir, "checkpoints");
  const aside = `${folder}.replaced-${timestampNow()}`;
  const move = (from: string, to: string): void => {
    if (existsSync(from)) renameSync(from, to);
    fsyncDir(dataDir);
  };
  move(folder, aside);
  return () => {
    rmSync(folder, { recursive: true, force: true });
    move(aside, folder);
  };
}

function assertRestorable({ id, manifest }: Backup, target: DatabaseTarget): void {
  if (manifest.dialect !== target.kind)
    throw new BackupRefused(
      `Backup ${id} is of ${dialectName(manifest.dialect)} and the settings name ${dialectName(target.kind)}. Restore it where it came from, then use keyrack db copy.`,
      2,
    );
  const newest = loadMigrations(target.kind).at(-1)?.version ?? 0;
  if (manifest.schema_version > newest)
    throw new BackupRefused(
      `Backup ${id} has schema ${manifest.schema_version}, which is newer than this version of Keyrack (${newest}). Use a newer Keyrack.`,
      2,
    );
}

/** Without the key that sealed them, signing keys and unsent mail are lost: the operator must ask for that. */
function assertMasterKey(options: RestoreOptions, backup: Backup): void {
  const wanted = backup.manifest.master_key_fingerprint;
  if (options.newMasterKey || wanted === null) return;
  const found = options.masterKeyFingerprint();
  if (found === wanted) return;
  const problem = found
    ? "The master key here is not the one this backup was made with."
    : "There is no master key here, and backups never contain it. This backup needs the one it was made with.";
  throw new BackupRefused(
    `${problem} Set KEYRACK_MASTER_KEY_FILE to it, or add --new-master-key to continue without it (new signing keys, unsent mail dropped).`,
    2,
  );
}

function assertForced({ options: { force } }: RestorePlan, where: string, keptAs: string): void {
  if (force) return;
  throw new BackupRefused(
    `There is a database ${where} already. Add --force to replace it; the old one is kept as ${keptAs}.`,
  );
}

/** With milliseconds, because a backup may be restored twice within a second. */
const timestampNow = (): string => new Date().toISOString().replace(/[-:.]/g, "");

async function restoreSqlite(plan: RestorePlan, file: string): Promise<Restored> {
  const { options, backup } = plan;
  const restored: DatabaseTarget = { kind: "sqlite", file: `${file}.restoring` };
  const keptAs = `${file}.replaced-${timestampNow()}`;
  const replaced = hasDatabase({ kind: "sqlite", file }) ? keptAs : null;
  let putBack = (): void => {};
  try {
    if (replaced) assertForced(plan, `at ${file}`, replaced);
    removeSqlite(restored.file);
    await extract(backup, restored.file, options.onProgress);
    const lost = await findLostChanges(restored, replaced ? await readState(plan) : null);
    await markRestorePending(restored, await pendingOf(plan, replaced));
    putBack = setCheckpointsAside(options.dataDir);
    const finished = await finishIn(plan, restored);
    await assertSound(plan, restored);
    swapSqlite(restored.file, file, keptAs);
    return report(plan, finished, lost, replaced);
  } catch (error) {
    putBack();
    throw error;
  } finally {
    removeSqlite(restored.file);
  }
}

async function restorePostgres(plan: RestorePlan, target: PostgresTarget): Promise<Restored> {
  const { options, backup } = plan;
  const replaced = (await hasTables(target)) ? `keyrack_replaced_${timestampNow().toLowerCase()}` : null;
  if (replaced) assertForced(plan, "there", `schema ${replaced}`);
  await assertNotInUse(target);
  const before = replaced ? await readState(plan) : null;
  const after = restorePendingSql(JSON.stringify(await pendingOf(plan, replaced)), options.newMasterKey);
  await assertChecksum(backup, options.onProgress);
  let putBack = (): void => {};
  let undo = async (): Promise<void> => {};
  const beforeCommit = async (): Promise<void> => {
    await options.assertAlone();
    putBack = setCheckpointsAside(options.dataDir);
  };
  try {
    await restoreDump(target.url, backup, { replaced, after, beforeCommit }, options.onProgress);
    undo = () => undoRestore(target.url, replaced);
    await assertSound(plan, target);
  } catch (error) {
    await undo();
    putBack();
    throw error;
  }
  const lost = await findLostChanges(target, before);
  const finished = await finishIn(plan, target);
  return report(plan, finished, lost, replaced);
}

function readState({ options, backup }: RestorePlan): Promise<ReplacedState | null> {
  const since = Date.parse(backup.manifest.created_at);
  return readReplaced(options, (source) => readReplacedState(source, since));
}

const readUsed = async (source: Source) => ({
  versions: await readVersions(source),
  meter_source: await readFactOf(source, "meter_source"),
});

/**
 * The replaced database may itself be a restore of the same backup: its policy versions must not be used again either.
 */
async function pendingOf(plan: RestorePlan, replaced: string | null): Promise<PendingRestore> {
  const { options, backup, deploymentId } = plan;
  const used = replaced ? await readReplaced(options, readUsed) : null;
  const reached = (used?.versions ?? []).filter(({ policy_version }) => policy_version > VERSION_JUMP);
  const { newMasterKey: new_master_key } = options;
  const facts = { deployment_id: deploymentId, meter_source: used?.meter_source ?? null };
  return { backup_id: backup.id, new_master_key, ...facts, replaced, reached };
}

/** Migrates the schema and records in the database that its restore is not finished. */
async function markRestorePending(target: DatabaseTarget, pending: PendingRestore): Promise<void> {
  const store = await openStore(target, { now: Date.now, fatal: () => {} });
  try {
    await record({ store }, async (tx) => {
      await writeFact.run(tx, { name: "restore_pending", value: JSON.stringify(pending) });
      if (pending.new_master_key) for (const name of FACTS_OF_MASTER_KEY) await dropFact.run(tx, { name });
    });
  } finally {
    await store.close();
  }
}

async function finishIn({ options }: RestorePlan, target: DatabaseTarget): Promise<FinishedRestore> {
  const instance = await options.open(target);
  try {
    const finished = await finishRestore(instance.services);
    if (!finished) throw new Error("the restored database has no pending restore");
    return finished;
  } finally {
    await instance.close();
  }
}

async function assertSound({ options, backup }: RestorePlan, target: DatabaseTarget): Promise<void> {
  const { findings } = await inspect(target, options.onProgress);
  if (findings.length > 0)
    throw new BackupRefused(`Backup ${backup.id} does not restore to a sound database: ${findings[0]}.`, 4);
}

function report(
  { options, backup, createsMasterKey }: RestorePlan,
  finished: FinishedRestore,
  lost: LostChanges,
  replaced: string | null,
): Restored {
  return {
    object: "restore",
    ...finished,
    backup_created_at: backup.manifest.created_at,
    ...lost,
    replaced,
    new_master_key: options.newMasterKey,
    master_key_created: createsMasterKey,
  };
}
