// The backup schedule, and the record of past backups and restore tests. The record is in the database because on
// PostgreSQL any process of the deployment may have made the last backup.
import { readFact, type Fact } from "../store/queries/deployment.ts";
import { findBackup, backupDir } from "./files.ts";
import { createBackup } from "./create.ts";
import type { Services } from "../domain/core/context.ts";
import type { BackupState } from "../domain/health/state.ts";
import { testBackup } from "./restore-test.ts";
import { pruneBackups } from "./retention.ts";
import { HOUR_MS } from "../kernel/durations.ts";

type BackupLog = {
  lastBackupAt: string | null;
  lastBackupId: string | null;
  /** The last failure, when no backup has succeeded since. */
  lastFailureAt: string | null;
  lastFailure: string | null;
  lastRestoreTestAt: string | null;
  lastRestoreTestOk: boolean | null;
  lastRestoreTestBackupId: string | null;
};

type LastBackup = { id: string; at: string };
type LastFailure = { at: string; message: string } | null;
type LastTest = { at: string; pass: boolean; backup_id: string };

async function fact<T>(services: Services, name: Fact): Promise<T | null> {
  const row = await readFact.first(services.store.read, { name });
  return row ? (JSON.parse(row.value) as T) : null;
}

export async function readBackupLog(services: Services): Promise<BackupLog> {
  const [last, failure, test] = await Promise.all([
    fact<LastBackup>(services, "last_backup"),
    fact<LastFailure>(services, "backup_failure"),
    fact<LastTest>(services, "last_restore_test"),
  ]);
  return {
    lastBackupAt: last?.at ?? null,
    lastBackupId: last?.id ?? null,
    lastFailureAt: failure?.at ?? null,
    lastFailure: failure?.message ?? null,
    lastRestoreTestAt: test?.at ?? null,
    lastRestoreTestOk: test?.pass ?? null,
    lastRestoreTestBackupId: test?.backup_id ?? null,
  };
}

/** For /status and the metrics. */
export async function backupStateOf(services: Services): Promise<BackupState> {
  const log = await readBackupLog(services);
  const ms = (at: string | null): number | null => (at === null ? null : Date.parse(at));
  return {
    lastSuccessAt: ms(log.lastBackupAt),
    failing: log.lastFailureAt !== null,
    restoreTest: {
      lastRunAt: ms(log.lastRestoreTestAt),
      pass: log.lastRestoreTestOk,
      backupId: log.lastRestoreTestBackupId,
    },
  };
}

function age(now: number, at: string | null): number {
  return at === null ? Infinity : now - Date.parse(at);
}

/**
 * Creates a backup when one is due and prunes old ones. A failed backup is retried after an hour. Returns whether it
 * ran.
 */
export async function runDueBackup(services: Services): Promise<boolean> {
  const { backup_every: every } = services.settings;
  if (every === null) return false;
  const { lastBackupAt, lastFailureAt } = await readBackupLog(services);
  const now = services.clock.now();
  if (age(now, lastBackupAt) < every || age(now, lastFailureAt) < Math.min(every, HOUR_MS)) return false;
  await createBackup(services);
  const { removed } = pruneBackups(services.settings, { now });
  if (removed.length > 0) services.log.info("old backups removed", { backup_ids: removed.join(" ") });
  return true;
}

/** Tests the newest backup when a test is due. After a failed test, the next backup is tested at once. */
export async function runDueRestoreTest(services: Services): Promise<boolean> {
  const { restore_test_every: every, backup_every } = services.settings;
  if (every === null || backup_every === null) return false;
  const { lastBackupId, lastRestoreTestAt, lastRestoreTestOk, lastRestoreTestBackupId } = await readBackupLog(services);
  if (lastBackupId === null) return false;
  const retest = lastRestoreTestOk === false && lastRestoreTestBackupId !== lastBackupId;
  if (!retest && age(services.clock.now(), lastRestoreTestAt) < every) return false;
  const { id } = findBackup(backupDir(services.settings), undefined);
  return (await testBackup(services, id)).pass;
}
