// Tests a backup by restoring it into a scratch database and inspecting all of it. The result is stored beside the
// backup and in the database, from which /status reads it.
import { lstatSync, mkdtempSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { DAY_MS } from "../kernel/durations.ts";
import { removeLarge } from "../platform/fsync.ts";
import { formatTimestamp } from "../kernel/timestamps.ts";
import { contentDifferences } from "../store/offline/contents.ts";
import { openStore } from "../store/database.ts";
import type { DatabaseTarget } from "../store/target.ts";
import { dropFact, writeFact } from "../store/queries/deployment.ts";
import { inspect } from "../store/offline/thread-tasks.ts";
import { withSignal, type OnProgress } from "../store/progress.ts";
import { ScratchUnavailable, SCRATCH_MARK, withScratchDatabase } from "../store/postgres/scratch.ts";
import { restoreDump } from "../store/postgres/restore.ts";
import { UnreadableDump } from "../store/postgres/tools.ts";
import { SchemaRefused } from "../store/schema/migrate.ts";
import {
  assertChecksum,
  backupDir,
  BackupRefused,
  chooseBackup,
  extract,
  fileProblem,
  writeTestResult,
  type Backup,
} from "./files.ts";
import { ownDeploymentId } from "./owner.ts";
import { assertRoom, scratchDir } from "./room.ts";
import type { Services } from "../domain/core/context.ts";
import { record } from "../domain/core/record.ts";

export type RestoreTest = {
  object: "restore_test";
  backup_id: string;
  at: string;
  pass: boolean;
  findings: string[];
  chains: number;
  audit_rows: number;
};

const SCRATCH_PREFIX = "restore-test-";

const running = new WeakMap<Services, Promise<unknown>>();

/** Tests run one after the other: they share the scratch database, and each begins by clearing it. */
export function testBackup(
  services: Services,
  id: string | undefined,
  onProgress: OnProgress = () => {},
): Promise<RestoreTest> {
  const test = (running.get(services) ?? Promise.resolve()).then(() => testOne(services, id, onProgress));
  const settled = test.catch(() => {});
  running.set(services, settled);
  return test;
}

async function testOne(services: Services, id: string | undefined, onProgress: OnProgress): Promise<RestoreTest> {
  const { settings, store, clock } = services;
  const deploymentId = await ownDeploymentId(services);
  const backup = chooseBackup(backupDir(settings), id, { dialect: store.dialect, deploymentId, now: clock.now() });
  const { signal } = services.shutdown;
  const outcome = await restoreAndInspect(services, backup, withSignal(onProgress, signal));
  signal.throwIfAborted(); // a cancelled test has no result
  const test: RestoreTest = {
    object: "restore_test",
    backup_id: backup.id,
    at: formatTimestamp(clock.now()),
    pass: outcome.findings.length === 0,
    ...outcome,
  };
  const { at, pass, findings } = test;
  await writeTestResult(backup.folder, { at, pass, findings });
  const value = JSON.stringify({ at, pass, backup_id: backup.id, finding: findings[0] ?? null });
  await record(services, async (tx) => {
    await writeFact.run(tx, { name: "last_restore_test", value });
    await dropFact.run(tx, { name: "restore_test_failure" });
  });
  if (pass) services.log.info("restore test passed", { backup_id: backup.id });
  else services.log.error("restore test failed", { backup_id: backup.id, finding: findings[0] ?? "" });
  return test;
}

type Outcome = Pick<RestoreTest, "findings" | "chains" | "audit_rows">;

async function restoreAndInspect(services: Services, backup: Backup, onProgress: OnProgress): Promise<Outcome> {
  const problem = fileProblem(backup);
  if (problem) return { findings: [problem], chains: 0, audit_rows: 0 };
  const test = backup.manifest.dialect === "sqlite" ? testInScratchFile : testInScratchDatabase;
  try {
    return await test(services, backup, onProgress);
  } catch (error) {
    onProgress.signal?.throwIfAborted();
    if (!isAboutBackup(error)) throw error;
    return { findings: [(error as Error).message], chains: 0, audit_rows: 0 };
  }
}

/**
 * What restored contents cause: not a database, or of SQLSTATE: values that are refused (22), broken constraints (23),
 * and tables (42P01) or columns (42703) that the dump does not create. Others of class 42 come from client programs
 * that are newer than the server, as a parameter that it does not know.
 */
const CONTENT_ERROR = /^(SQLITE_(CORRUPT|NOTADB|CONSTRAINT|ERROR).*|(22|23)[0-9A-Z]{3}|42P01|42703)$/;
/** An unsupported value of a parameter, and a character that the scratch database's encoding does not have. */
const SURROUNDINGS = ["22023", "22P05"];

/**
 * Any other error is one of the surroundings (a missing program, a lost connection, a full disk) and gives no verdict:
 * a failed backup is not restored from, and does not count for retention.
 */
function isAboutBackup(error: unknown): boolean {
  if (error instanceof UnreadableDump) return true;
  if (error instanceof BackupRefused && error.exitCode === 4) return true;
  const { code = "" } = error as { code?: string };
  return CONTENT_ERROR.test(code) && !SURROUNDINGS.includes(code);
}

/** Compares the restored database with the manifest, then opens it as this version would, migrations included. */
async function inspectRestored(target: DatabaseTarget, backup: Backup, onProgress: OnProgress): Promise<Outcome> {
  const { contents, findings, chains, audit_rows } = await inspect(target, onProgress);
  const problems = [...findings, ...contentDifferences(backup.manifest, contents)];
  if (problems.length === 0) await openAndClose(target, backup.id);
  return { findings: problems, chains, audit_rows };
}

async function openAndClose(target: DatabaseTarget, id: string): Promise<void> {
  try {
    const store = await openStore(target, { now: Date.now, fatal: () => {} });
    await store.close();
  } catch (error) {
    // No verdict: the version that made the backup can open it. Nor are these settings wrong, as at a start.
    if (error instanceof SchemaRefused) throw new BackupRefused(`Backup ${id} cannot be tested: ${error.message}`);
    throw error;
  }
}

/** Removes what killed tests left behind before this time. */
export async function removeScratch(dir: string, before: number): Promise<void> {
  for (const path of readdirSync(dir)
    .filter((name) => name.startsWith(SCRATCH_PREFIX))
    .map((name) => join(dir, name))) {
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (found && found.mtimeMs < before) await removeLarge(path);
  }
}

async function testInScratchFile(services: Services, backup: Backup, onProgress: OnProgress): Promise<Outcome> {
  const { settings, store } = services;
  const dir = scratchDir(settings.data_dir, dirname(backup.folder));
  // Another deployment may be running a test beside its backups.
  await removeScratch(dir, dir === settings.data_dir ? Infinity : Date.now() - DAY_MS);
  assertRoom(dir, backup.manifest.bytes, store.target, settings.disk_reserve_mb);
  const scratch = mkdtempSync(join(dir, SCRATCH_PREFIX));
  try {
    const file = join(scratch, "keyrack.db");
    await extract(backup, file, onProgress);
    return await inspectRestored({ kind: "sqlite", file }, backup, onProgress);
  } finally {
    await removeLarge(scratch);
  }
}

async function testInScratchDatabase(services: Services, backup: Backup, onProgress: OnProgress): Promise<Outcome> {
  const { target } = services.store;
  const { restore_test_database_url: scratch } = services.settings;
  if (target.kind !== "postgres")
    throw new ScratchUnavailable(
      `Backup ${backup.id} is of PostgreSQL and this instance uses SQLite: it cannot be tested here.`,
    );
  return withScratchDatabase(target.url, scratch.kind === "postgres" ? scratch.url : null, async (url) => {
    await assertChecksum(backup, onProgress);
    await restoreDump(url, backup, { replaced: null, after: [SCRATCH_MARK] }, onProgress);
    return inspectRestored({ kind: "postgres", url, pool: 1 }, backup, onProgress);
  });
}
