// Backups and their restore tests.
import { setting } from "../setting.ts";

export const backupsSettings = {
  backup_dir: setting("KEYRACK_BACKUP_DIR", "path", "", "Folder for backups; unset = backups in the data dir."),
  backup_every: setting(
    "KEYRACK_BACKUP_EVERY",
    "duration",
    "24h",
    "Interval between backups, such as 12h; off = no scheduled backups.",
  ),
  backup_hook: setting(
    "KEYRACK_BACKUP_HOOK",
    "text",
    "",
    "Command to run after each backup, with the backup's folder as its argument.",
  ),
  backup_before_migrate: setting(
    "KEYRACK_BACKUP_BEFORE_MIGRATE",
    "switch",
    "on",
    "Back up a SQLite database before it is migrated, and do not migrate if that fails. off = no backup.",
  ),
  restore_test_every: setting(
    "KEYRACK_RESTORE_TEST_EVERY",
    "duration",
    "7d",
    "Interval between restore tests of the newest backup; off = never.",
  ),
  restore_test_database_url: setting(
    "KEYRACK_RESTORE_TEST_DATABASE_URL",
    "database",
    "",
    "Empty PostgreSQL database for restore tests; unset = a temporary one is created.",
    { secret: true },
  ),
} as const;
