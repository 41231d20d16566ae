// How the backups of this deployment are, for /status and the metrics, and the schedule that keeps them so. The state
// lies in the database: on PostgreSQL any process may have made the last one.
import { readFact, type Fact } from "../store/deployment.ts";
import { findBackup, backupDir } from "./backup-files.ts";
import { createBackup, pruneBackups } from "./backups.ts";
import type { Rack } from "./context.ts";
import { testBackup } from "./restore-test.ts";

const HOUR_MS = 3_600_000;
const TEST_AGE_MAX_MS = 8 * 24 * HOUR_MS;

export type BackupHealth = {
  /** As decision 166 has it; unknown until the first backup. */
  status: "ok" | "degraded" | "disabled" | "unknown";
  lastBackupAt: string | null;
  lastBackupId: string | null;
  /** The last try that failed, when none has succeeded since. */
  lastFailureAt: string | null;
  lastFailure: string | null;
  lastRestoreTestAt: string | null;
  lastRestoreTestOk: boolean | null;
  lastRestoreTestBackupId: string | null;
};

type LastBackup = { id: string; at: string };
type LastFailure = { at: string; message: string } | null;
type LastTest = { at: string; pass: boolean; backup_id: string };

async function fact<T>(rack: Rack, name: Fact): Promise<T | null> {
  const row = await readFact.first(rack.store.read, { name });
  return row ? (JSON.parse(row.value) as T) : null;
}

export async function backupState(rack: Rack): Promise<BackupHealth> {
  const [last, failure, test] = await Promise.all([
    fact<LastBackup>(rack, "last_backup"),
    fact<LastFailure>(rack, "backup_failure"),
    fact<LastTest>(rack, "last_restore_test"),
  ]);
  const state = {
    lastBackupAt: last?.at ?? null,
    lastBackupId: last?.id ?? null,
    lastFailureAt: failure?.at ?? null,
    lastFailure: failure?.message ?? null,
    lastRestoreTestAt: test?.at ?? null,
    lastRestoreTestOk: test?.pass ?? null,
    lastRestoreTestBackupId: test?.backup_id ?? null,
  };
  return { status: statusOf(rack, state), ...state };
}

function statusOf({ settings, clock }: Rack, state: Omit<BackupHealth, "status">): BackupHealth["status"] {
  const { backup_every: every, restore_test_every } = settings;
  if (every === null) return "disabled";
  if (state.lastFailureAt !== null) return "degraded";
  if (state.lastBackupAt === null) return "unknown";
  if (age(clock.now(), state.lastBackupAt) > 2 * every) return "degraded";
  if (state.lastRestoreTestOk === false) return "degraded";
  const old = restore_test_every !== null && age(clock.now(), state.lastRestoreTestAt) > TEST_AGE_MAX_MS;
  return old && state.lastRestoreTestAt !== null ? "degraded" : "ok";
}

function age(now: number, at: string | null): number {
  return at === null ? Infinity : now - Date.parse(at);
}

/** For the job loop: a backup when one is due, then what retention no longer keeps goes. A failed one is tried again in an hour. */
export async function runDueBackup(rack: Rack): Promise<boolean> {
  const { backup_every: every } = rack.settings;
  if (every === null) return false;
  const { lastBackupAt, lastFailureAt } = await backupState(rack);
  const now = rack.clock.now();
  if (age(now, lastBackupAt) < every || age(now, lastFailureAt) < Math.min(every, HOUR_MS)) return false;
  await createBackup(rack);
  const { removed } = pruneBackups(rack);
  if (removed.length > 0) rack.log.info("old backups removed", { backup_ids: removed.join(" ") });
  return true;
}

/** For the job loop: tries the newest backup when that is due. A test that failed is made again with the next backup. */
export async function runDueRestoreTest(rack: Rack): Promise<boolean> {
  const { restore_test_every: every, backup_every } = rack.settings;
  if (every === null || backup_every === null) return false;
  const { lastBackupId, lastRestoreTestAt, lastRestoreTestOk, lastRestoreTestBackupId } = await backupState(rack);
  if (lastBackupId === null) return false;
  const again = lastRestoreTestOk === false && lastRestoreTestBackupId !== lastBackupId;
  if (!again && age(rack.clock.now(), lastRestoreTestAt) < every) return false;
  const { id } = findBackup(backupDir(rack.settings), undefined);
  return (await testBackup(rack, id)).pass;
}
