// The backup schedule, and the record of past backups and restore tests. The record is in the database because on
// PostgreSQL any process of the deployment may have made the last backup.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { getJsonFact } from "../domain/core/facts.ts";
import { dropFact } from "../store/queries/deployment.ts";
import { backupDir, newestBackup } from "./files.ts";
import { createBackup, recordFailure } from "./create.ts";
import type { Services } from "../domain/core/context.ts";
import { record } from "../domain/core/record.ts";
import type { BackupState } from "../domain/health/state.ts";
import { ownDeploymentId } from "./owner.ts";
import { testBackup } from "./restore-test.ts";
import { pruneBackups } from "./retention.ts";
import { HOUR_MS, isFuture } from "../kernel/durations.ts";

type BackupLog = {
  lastBackupAt: string | null;
  lastBackupId: string | null;
  /** The master key was rotated after it. */
  lastBackupHasOldKey: boolean;
  /** The last failure, when no backup has succeeded since. */
  lastFailureAt: string | null;
  lastFailure: string | null;
  lastRestoreTestAt: string | null;
  lastRestoreTestOk: boolean | null;
  lastRestoreTestBackupId: string | null;
  /** The last restore test that could not run, when none has run since. */
  lastTestFailureAt: string | null;
};

type LastBackup = { id: string; at: string; has_old_key?: true };
type LastFailure = { at: string; message: string } | null;
type LastTest = { at: string; pass: boolean; backup_id: string };

export async function readBackupLog(services: Services): Promise<BackupLog> {
  const [last, failure, test, testFailure] = await Promise.all([
    getJsonFact<LastBackup>(services.store.read, "last_backup"),
    getJsonFact<LastFailure>(services.store.read, "backup_failure"),
    getJsonFact<LastTest>(services.store.read, "last_restore_test"),
    getJsonFact<LastFailure>(services.store.read, "restore_test_failure"),
  ]);
  return {
    lastBackupAt: last?.at ?? null,
    lastBackupId: last?.id ?? null,
    lastBackupHasOldKey: last?.has_old_key ?? false,
    lastFailureAt: failure?.at ?? null,
    lastFailure: failure?.message ?? null,
    lastRestoreTestAt: test?.at ?? null,
    lastRestoreTestOk: test?.pass ?? null,
    lastRestoreTestBackupId: test?.backup_id ?? null,
    lastTestFailureAt: testFailure?.at ?? null,
  };
}

/** For /status and the metrics. */
export async function backupStateOf(services: Services): Promise<BackupState> {
  const log = await readBackupLog(services);
  const ms = (at: string | null): number | null => (at === null ? null : Date.parse(at));
  return {
    lastSuccessAt: ms(log.lastBackupAt),
    failing:
      log.lastFailureAt !== null || (services.settings.restore_test_every !== null && log.lastTestFailureAt !== null),
    restoreTest: {
      lastRunAt: ms(log.lastRestoreTestAt),
      pass: log.lastRestoreTestOk,
      backupId: log.lastRestoreTestBackupId,
    },
  };
}

/** Infinite for a time in the future, too: a clock that was wrong once must not delay what is due. */
function age(now: number, at: string | null): number {
  return at === null || isFuture(Date.parse(at), now) ? Infinity : now - Date.parse(at);
}

/**
 * Creates a backup when one is due: the last is too old, or has a master key that was rotated since. Prunes
 * old ones before it, to make room, and after it. A failed backup is retried after an hour. Returns whether it ran.
 */
export async function runDueBackup(services: Services): Promise<boolean> {
  const { backup_every: every } = services.settings;
  if (every === null) return false;
  const { lastBackupAt, lastBackupHasOldKey, lastFailureAt } = await readBackupLog(services);
  const now = services.clock.now();
  const isRecent = age(now, lastBackupAt) < every && !lastBackupHasOldKey;
  if (isRecent || age(now, lastFailureAt) < Math.min(every, HOUR_MS)) return false;
  await prune(services, { now, forNext: true }).catch((error: unknown) =>
    services.log.warn("old backups were not removed", { error: String(error) }),
  );
  await createBackup(services);
  await prune(services, { now });
  return true;
}

async function prune(services: Services, options: { now: number; forNext?: boolean }): Promise<void> {
  const deploymentId = await ownDeploymentId(services);
  const { removed } = await pruneBackups(services.settings, { ...options, deploymentId });
  if (removed.length > 0) services.log.info("old backups removed", { backup_ids: removed.join(" ") });
}

/**
 * Tests the newest backup, scheduled or not, when a test is due. After a failed test, the next backup is tested at
 * once. A test that could not run is retried after an hour, and no longer reported when there is no backup to test.
 */
export async function runDueRestoreTest(services: Services): Promise<boolean> {
  const { settings, store, clock } = services;
  const { restore_test_every: every } = settings;
  if (every === null) return false;
  const { lastRestoreTestAt, lastRestoreTestOk, lastRestoreTestBackupId, lastTestFailureAt } =
    await readBackupLog(services);
  const now = clock.now();
  const isRecent = age(now, lastRestoreTestAt) < every;
  if ((isRecent && lastRestoreTestOk) || age(now, lastTestFailureAt) < Math.min(every, HOUR_MS)) return false;
  const deploymentId = await ownDeploymentId(services);
  const newest = newestBackup(backupDir(settings), { dialect: store.dialect, deploymentId, now });
  if (!newest && lastTestFailureAt !== null)
    await record(services, (tx) => dropFact.run(tx, { name: "restore_test_failure" }));
  if (!newest || (isRecent && newest.id === lastRestoreTestBackupId)) return false;
  try {
    return (await testBackup(services, newest.id)).pass;
  } catch (error) {
    if (!existsSync(join(backupDir(settings), newest.id))) return false; // pruned meanwhile: another is tested next
    if (!services.shutdown.signal.aborted) await recordFailure(services, "restore_test_failure", error);
    throw error;
  }
}
