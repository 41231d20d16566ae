// Room on disk for copies of the database. On the disk of the live database a copy must leave enough that the server
// continues to write.
import { statfsSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { LAST_BYTES } from "../domain/limits/written-bytes.ts";
import { networkFileSystem } from "../store/sqlite/lock.ts";
import type { DatabaseTarget } from "../store/target.ts";
import { BackupRefused } from "./files.ts";

const deviceOf = (path: string): number => statSync(path).dev;

/**
 * How many of `bytes` do not fit. On a watched disk a copy leaves what is needed for writes to continue, but may take
 * it below KEYRACK_DISK_RESERVE_MB: a backup matters more than writes of owners that are beyond their share.
 */
export const missingBytes = (free: number, bytes: number, isWatched: boolean): number =>
  Math.max(0, bytes + (isWatched ? LAST_BYTES : 0) - free);

/** Throws if a copy of this size has no room in `dir`. */
export function assertRoom(dir: string, bytes: number, target: DatabaseTarget, disk_reserve_mb: number): void {
  const { bavail, bsize } = statfsSync(dir);
  const isShared = target.kind === "sqlite" && deviceOf(dirname(target.file)) === deviceOf(dir);
  const missing = missingBytes(bavail * bsize, bytes, isShared && disk_reserve_mb > 0);
  if (missing > 0)
    throw new BackupRefused(
      `There is no room for a copy of the database in ${dir}: ${Math.ceil(missing / 1e6)} MB more are needed${isShared ? ", so that the server can continue to write" : ""}. Free space (keyrack backup prune), or set KEYRACK_BACKUP_DIR to a folder on another disk.`,
    );
}

/**
 * Where a backup is restored for a test: beside the backups if they have a disk of their own, on which SQLite can work.
 */
export function scratchDir(
  dataDir: string,
  backups: string,
  { device, network } = { device: deviceOf, network: networkFileSystem },
): string {
  return device(backups) === device(dataDir) || network(backups) !== undefined ? dataDir : backups;
}
