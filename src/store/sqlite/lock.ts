// Data dir lock: one process at a time. `keyrack.lock` is a SQLite file held in an exclusive transaction.
// Node has no flock; SQLite's lock is the kernel's, so it is released however the process dies.
import { statfsSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { ExitError } from "../../kernel/exit-error.ts";
import { codeOf } from "../../platform/errors.ts";
import { connectSqlite } from "./open.ts";

/** The database's name in a data dir. */
export const DEFAULT_FILE = "keyrack.db";
/** Created by the first process that uses a data dir with SQLite. */
export const LOCK_FILE = "keyrack.lock";

export class DataDirInUse extends ExitError {
  constructor(message: string) {
    super(message, 1);
  }
}

export type DataDirLock = { release(): void };

export function lockDataDir(dir: string): DataDirLock {
  return holdLock(join(dir, LOCK_FILE), `Another Keyrack process is using the data dir ${dir}.`);
}

/**
 * For a database file outside the data dir: two data dirs must not share it. A file of the default name may be the
 * database of another data dir, whose lock it then has.
 */
export function lockDatabaseFile(file: string): DataDirLock {
  if (basename(file) === DEFAULT_FILE) return lockDataDir(dirname(file));
  return holdLock(`${file}.lock`, `Another Keyrack process is using the database ${file}.`);
}

function holdLock(path: string, inUse: string): DataDirLock {
  const db = connectSqlite(path, { timeout: 0 });
  try {
    db.exec("begin exclusive");
  } catch (error) {
    db.close();
    if (!codeOf(error).startsWith("SQLITE_BUSY")) throw error;
    throw new DataDirInUse(inUse);
  }
  return { release: () => db.close() };
}

const NETWORK_FILE_SYSTEMS = new Map([
  [0x6969, "NFS"],
  [0x517b, "SMB"],
  [0xff534d42, "CIFS"],
  [0xfe534d42, "SMB2"],
]);

const FUSE = 0x65735546;

/** Whether a folder is on a file system in user space, of which some are network shares. */
export function isOnFuse(dir: string): boolean {
  return statfsSync(dir).type >>> 0 === FUSE;
}

/** The name of the network file system that a folder is on, if any: SQLite's locks are unreliable there. */
export function networkFileSystem(dir: string): string | undefined {
  return NETWORK_FILE_SYSTEMS.get(statfsSync(dir).type >>> 0);
}
