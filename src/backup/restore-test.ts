// Restores a backup into a scratch place and looks at all of it: a backup is only what has been restored. The result is
// kept beside the backup and in the database, where /status finds it.
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { formatTimestamp } from "../kernel/timestamps.ts";
import { differences } from "../store/offline/contents.ts";
import { openStore } from "../store/database.ts";
import type { DatabaseTarget } from "../store/target.ts";
import { writeFact } from "../store/queries/deployment.ts";
import { inspect } from "../store/offline/inspect.ts";
import type { OnProgress } from "../store/progress.ts";
import { NoScratch, SCRATCH_MARK, withScratchDatabase } from "../store/postgres/scratch.ts";
import { restoreDump } from "../store/postgres/restore.ts";
import { assertChecksum, backupDir, extract, findBackup, writeProof, type Backup } from "./files.ts";
import { stoppable } from "./cancellation.ts";
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

const SCRATCH = "restore-test-";

const running = new WeakMap<Services, Promise<unknown>>();

/** One after the other: they share the scratch place, and each begins by clearing it. */
export function testBackup(
  services: Services,
  id: string | undefined,
  tell: OnProgress = () => {},
): Promise<RestoreTest> {
  const test = (running.get(services) ?? Promise.resolve()).then(() => testOne(services, id, tell));
  const over = test.catch(() => {});
  running.set(services, over);
  return test;
}

async function testOne(services: Services, id: string | undefined, tell: OnProgress): Promise<RestoreTest> {
  const backup = findBackup(backupDir(services.settings), id);
  const told = stoppable(services, tell);
  const tried = await tryBackup(services, backup, told);
  told.signal?.throwIfAborted(); // a test that was cut short says nothing
  const test: RestoreTest = {
    object: "restore_test",
    backup_id: backup.id,
    at: formatTimestamp(services.clock.now()),
    pass: tried.findings.length === 0,
    ...tried,
  };
  const { at, pass, findings } = test;
  writeProof(backup.folder, { at, pass, findings });
  const value = JSON.stringify({ at, pass, backup_id: backup.id, finding: findings[0] ?? null });
  await record(services, (tx) => writeFact.run(tx, { name: "last_restore_test", value }));
  if (pass) services.log.info("restore test passed", { backup_id: backup.id });
  else services.log.error("restore test failed", { backup_id: backup.id, finding: findings[0] ?? "" });
  return test;
}

type Tried = Pick<RestoreTest, "findings" | "chains" | "audit_rows">;

async function tryBackup(services: Services, backup: Backup, tell: OnProgress): Promise<Tried> {
  const work = backup.manifest.dialect === "sqlite" ? inScratchFile : inScratchDatabase;
  try {
    return await work(services, backup, tell);
  } catch (error) {
    if (isOfThePlace(error)) throw error;
    return { findings: [(error as Error).message], chains: 0, audit_rows: 0 };
  }
}

/** No place to try it in, or no room there, says nothing about the backup. */
function isOfThePlace(error: unknown): boolean {
  const { scratch, code = "" } = error as { scratch?: boolean; code?: string };
  return scratch === true || ["ENOSPC", "EDQUOT", "EMFILE", "ENFILE", "SQLITE_FULL"].includes(code);
}

/** As restored, against the manifest; then as this version would use it. */
async function look(target: DatabaseTarget, { manifest }: Backup, tell: OnProgress): Promise<Tried> {
  const { contents, findings, chains, audit_rows } = await inspect(target, tell);
  const all = [...findings, ...differences(manifest, contents)];
  if (all.length === 0) {
    const store = await openStore(target, { now: Date.now, fatal: () => {} });
    await store.close();
  }
  return { findings: all, chains, audit_rows };
}

async function inScratchFile({ settings }: Services, backup: Backup, tell: OnProgress): Promise<Tried> {
  const { data_dir } = settings;
  for (const name of readdirSync(data_dir))
    if (name.startsWith(SCRATCH)) rmSync(join(data_dir, name), { recursive: true, force: true });
  const scratch = mkdtempSync(join(data_dir, SCRATCH));
  try {
    const file = join(scratch, "keyrack.db");
    await extract(backup, file, tell);
    return await look({ kind: "sqlite", file }, backup, tell);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

async function inScratchDatabase(services: Services, backup: Backup, tell: OnProgress): Promise<Tried> {
  const { target } = services.store;
  const { restore_test_database_url: place } = services.settings;
  if (target.kind !== "postgres")
    throw new NoScratch(
      `Backup ${backup.id} is of PostgreSQL and this instance is not on it: it cannot be tried here.`,
    );
  return withScratchDatabase(target.url, place.kind === "postgres" ? place.url : null, async (url) => {
    await assertChecksum(backup, tell);
    await restoreDump(url, backup, { replaced: null, after: [SCRATCH_MARK] }, tell);
    return look({ kind: "postgres", url, pool: 1 }, backup, tell);
  });
}
