// What `keyrack doctor` finds about backups: whether the settings provide for them, and what the database records of
// those that were made.
import { existsSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { backupDir } from "../../../backup/files.ts";
import type { Settings } from "../../../config/settings.ts";
import { RESTORE_TEST_AGE_MAX_MS } from "../../../domain/health/state.ts";
import { readFactOf } from "../../../store/offline/contents.ts";
import type { Source } from "../../../store/offline/source.ts";
import type { Fact } from "../../../store/schema/tables.ts";
import type { DatabaseTarget } from "../../../store/target.ts";
import { fail, ok, risk, skip, type Finding } from "./findings.ts";

/** The disk of a folder that may not exist yet. */
function deviceOf(path: string): number {
  return existsSync(path) ? statSync(path).dev : deviceOf(dirname(path));
}

export async function checkBackups(settings: Settings, target: DatabaseTarget): Promise<Finding[]> {
  const found: Finding[] = [];
  const { backup_every, backup_hook, restore_test_every } = settings;
  if (backup_every === null)
    found.push(
      risk(
        "No backups are scheduled.",
        "Set KEYRACK_BACKUP_EVERY=24h, or run keyrack backup create and keyrack backup prune from cron.",
      ),
    );
  else if (backup_hook === "" && target.kind === "sqlite" && deviceOf(backupDir(settings)) === deviceOf(target.file))
    found.push(
      risk(
        "Backups are stored on the same disk as the data.",
        "Set KEYRACK_BACKUP_DIR to another disk, or copy them elsewhere with KEYRACK_BACKUP_HOOK.",
      ),
    );
  if (backup_every !== null && target.kind === "postgres") found.push(...(await checkTools()));
  if (restore_test_every === null) found.push(risk("Backups are never tested.", "Set KEYRACK_RESTORE_TEST_EVERY=7d."));
  else if (restore_test_every > RESTORE_TEST_AGE_MAX_MS)
    found.push(
      risk(
        "Restore tests are more than 8 days apart: between them the status is degraded and an alert fires.",
        "Set KEYRACK_RESTORE_TEST_EVERY=7d.",
      ),
    );
  const isElsewhere = backup_hook !== "" || target.kind === "sqlite"; // where PostgreSQL's disk is, is not known
  const elsewhere = isElsewhere ? ", and copies are kept elsewhere" : "";
  return found.length > 0 ? found : [ok(`Backups and restore tests are scheduled${elsewhere}.`)];
}

async function checkTools(): Promise<Finding[]> {
  const { toolVersion } = await import("../../../store/postgres/tools.ts");
  const tools = ["pg_dump", "pg_restore", "psql"] as const;
  try {
    await Promise.all(tools.map(toolVersion));
    return [];
  } catch (error) {
    return [fail((error as Error).message, "No backup can be made or tested until this is fixed.")];
  }
}

type Attempt = { at: string; message: string };
type Tested = { at: string; pass: boolean; backup_id: string; finding: string | null };

/** What the last backup and restore test recorded. */
export async function checkBackupRecord(source: Source): Promise<Finding[]> {
  const read = async <T>(name: Fact): Promise<T | null> => JSON.parse((await readFactOf(source, name)) ?? "null") as T;
  const [last, failure] = [await read<{ at: string }>("last_backup"), await read<Attempt>("backup_failure")];
  const [test, missed] = [await read<Tested>("last_restore_test"), await read<Attempt>("restore_test_failure")];
  const found: Finding[] = [];
  if (failure)
    found.push(
      fail(
        `The last backup failed at ${failure.at}: ${failure.message}`,
        "Fix the cause, then run keyrack backup create",
      ),
    );
  if (missed)
    found.push(
      fail(
        `A restore test could not run at ${missed.at}: ${missed.message}`,
        "Fix the cause, then run keyrack backup test",
      ),
    );
  if (test && !test.pass)
    found.push(
      fail(
        `Backup ${test.backup_id} failed its restore test at ${test.at}: ${test.finding}`,
        "Make and test another one: keyrack backup create, keyrack backup test",
      ),
    );
  if (found.length > 0) return found;
  if (!last) return [skip("No backup has been made yet.")];
  return [ok(`Last backup: ${last.at}. Last restore test: ${test?.at ?? "never"}.`)];
}
