// Backups as the CLI and the operator socket show them. Reads files only, so it works without a database.
import { backupDir, fileProblem, listBackups, type Backup, type BackupSettings, type BrokenBackup } from "./files.ts";

/**
 * good: checked as a database, or restored by a test. unproven: a PostgreSQL dump that no restore test has restored
 * yet. failed: a restore test found a problem. damaged: its files are not the ones that were written.
 */
export type BackupCondition = "good" | "unproven" | "failed" | "damaged";

export type BackupView = {
  object: "backup";
  id: string;
  created_at: string | null;
  state: BackupCondition;
  dialect: string | null;
  bytes: number | null;
  schema_version: number | null;
  audit_rows: number | null;
  /** The deployment that made it; null for a backup of an earlier version. */
  deployment_id: string | null;
  tested_at: string | null;
  problem: string | null;
  folder: string;
};

export function conditionOf(backup: Backup): BackupCondition {
  if (fileProblem(backup)) return "damaged";
  if (backup.test) return backup.test.pass ? "good" : "failed";
  return backup.manifest.dialect === "sqlite" ? "good" : "unproven";
}

/** Whether it may be restored from, as far as is known. */
export const isUsable = (backup: Backup): boolean => ["good", "unproven"].includes(conditionOf(backup));

export function viewBackup(backup: Backup | BrokenBackup): BackupView {
  const { id, folder, manifest } = backup;
  if (manifest === null) {
    const unknown = { created_at: null, dialect: null, bytes: null, schema_version: null, audit_rows: null };
    const untested = { deployment_id: null, tested_at: null, problem: backup.problem };
    return { object: "backup", id, state: "damaged", ...unknown, ...untested, folder };
  }
  const { created_at, dialect, bytes, schema_version, rows } = manifest;
  return {
    object: "backup",
    id,
    created_at,
    state: conditionOf(backup),
    dialect,
    bytes,
    schema_version,
    audit_rows: rows.audit_log ?? 0,
    deployment_id: manifest.deployment_id ?? null,
    tested_at: backup.test?.at ?? null,
    problem: fileProblem(backup) ?? backup.test?.findings[0] ?? null,
    folder,
  };
}

/** Newest first. */
export function viewBackups(settings: BackupSettings): BackupView[] {
  return listBackups(backupDir(settings)).map((backup) => viewBackup(backup));
}
