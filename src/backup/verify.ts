// Checks a backup against its manifest: every byte by its checksum, and a SQLite copy also as a database.
import { join } from "node:path";
import { contentDifferences } from "../store/offline/contents.ts";
import { inspect } from "../store/offline/thread-tasks.ts";
import { assertReadableDump } from "../store/postgres/tools.ts";
import type { OnProgress } from "../store/progress.ts";
import {
  backupDir,
  BackupRefused,
  fileProblem,
  findBackup,
  listBackups,
  sha256File,
  type Backup,
  type BackupSettings,
} from "./files.ts";

export type BackupCheck = { object: "backup_check"; id: string; ok: boolean; findings: string[] };

/** `id` undefined = the newest. */
export async function verifyBackup(
  settings: BackupSettings,
  id: string | undefined,
  onProgress: OnProgress,
): Promise<BackupCheck> {
  const dir = backupDir(settings);
  const backup = id === undefined ? listBackups(dir)[0] : findBackup(dir, id);
  if (!backup) throw new BackupRefused(`There is no backup in ${dir}.`);
  if (backup.manifest === null) return { object: "backup_check", id: backup.id, ok: false, findings: [backup.problem] };
  const findings = await findProblems(backup, onProgress);
  return { object: "backup_check", id: backup.id, ok: findings.length === 0, findings };
}

async function findProblems(backup: Backup, onProgress: OnProgress): Promise<string[]> {
  const { folder, manifest } = backup;
  const file = join(folder, manifest.file);
  const problem = fileProblem(backup);
  if (problem) return [problem];
  if ((await sha256File(file, onProgress)) !== manifest.sha256) return [`${manifest.file} does not match its checksum`];
  if (manifest.dialect === "postgres") {
    await assertReadableDump(file);
    return [];
  }
  const { contents, findings } = await inspect({ kind: "sqlite", file }, onProgress);
  return [...findings, ...contentDifferences(manifest, contents)];
}
