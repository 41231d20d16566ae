// Room on disk for copies of the database. On the disk of the live database a copy must leave enough that the server
// continues to write.
import { statfsSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { LAST_BYTES } from "../domain/limits/written-bytes.ts";
import { MIB } from "../kernel/sizes.ts";
import type { DatabaseTarget } from "../store/target.ts";
import { BackupRefused } from "./files.ts";

const deviceOf = (path: string): number => statSync(path).dev;

/**
 * How many of `bytes` do not fit. A copy must not fill the disk of the database to where every write is refused, nor
 * take it below the reserve, where some workspaces may not write. A disk below the reserve still gets backups.
 */
export function missingBytes(free: number, bytes: number, disk_reserve_mb: number): number {
  if (disk_reserve_mb === 0) return Math.max(0, bytes - free);
  const reserve = disk_reserve_mb * MIB;
  const left = free >= reserve ? Math.max(reserve, LAST_BYTES) : LAST_BYTES;
  return Math.max(0, bytes + left - free);
}

/** Throws if a copy of this size has no room in `dir`. */
export function assertRoom(dir: string, bytes: number, target: DatabaseTarget, disk_reserve_mb: number): void {
  const { bavail, bsize } = statfsSync(dir);
  const isShared = target.kind === "sqlite" && deviceOf(dirname(target.file)) === deviceOf(dir);
  const missing = missingBytes(bavail * bsize, bytes, isShared ? disk_reserve_mb : 0);
  if (missing > 0)
    throw new BackupRefused(
      `There is no room for a copy of the database in ${dir}: ${Math.ceil(missing / 1e6)} MB more are needed${isShared ? ", so that the server can continue to write" : ""}.`,
    );
}

/** Where a backup is restored for a test: beside the backups if they have a disk of their own. */
export function scratchDir(dataDir: string, backups: string, device = deviceOf): string {
  return device(backups) === device(dataDir) ? dataDir : backups;
}
