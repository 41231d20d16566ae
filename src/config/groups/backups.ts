// Backups and their restore tests.
import { database, duration, onOff, path, text } from "../parsers.ts";
import { setting } from "../setting.ts";

export const backupsSettings = {
  backup_dir: setting(path, "", "Folder for backups; unset = backups in the data dir."),
  backup_every: setting(duration, "24h", "Interval between backups, such as 12h; off = no scheduled backups."),
  backup_hook: setting(text, "", "Command to run after each backup, with the backup's folder as its argument."),
  backup_before_migrate: setting(
    onOff,
    "on",
    "Back up a SQLite database before it is migrated, and do not migrate if that fails. off = no backup.",
  ),
  restore_test_every: setting(duration, "7d", "Interval between restore tests of the newest backup; off = never."),
  restore_test_database_url: setting(
    database,
    "",
    "Empty PostgreSQL database for restore tests; unset = a temporary one is created.",
    { secret: true },
  ),
} as const;
