// The data dir: created on first start, accessible only to its owner, locked by one process at a time on SQLite.
import {
  accessSync,
  chmodSync,
  constants,
  existsSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  statSync,
} from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { BadSetting, type Settings } from "../config/settings.ts";
import { codeOf } from "../platform/errors.ts";
import { createDir, createFileDurably } from "../platform/fsync.ts";
import { isSqliteFile } from "../store/sqlite/header.ts";
import {
  DEFAULT_FILE,
  LOCK_FILE,
  lockDatabaseFile,
  lockDataDir,
  networkFileSystem,
  type DataDirLock,
} from "../store/sqlite/lock.ts";
import { isWritable } from "../store/sqlite/open.ts";
import type { DatabaseTarget } from "../store/target.ts";

/** Creates the data dir if it is missing and returns its absolute path. With `readOnly` it need not be writable. */
export function openDataDir(settings: Settings, { readOnly = false } = {}): string {
  const dir = resolve(settings.data_dir);
  try {
    createDir(dir);
    accessSync(dir, (readOnly ? 0 : constants.W_OK) | constants.R_OK | constants.X_OK);
  } catch (error) {
    const code = codeOf(error);
    const fix = code === "EACCES" ? " Run this as a user who may write there, or set KEYRACK_DATA_DIR." : "";
    throw new BadSetting(`The data dir ${dir} cannot be used: ${code}.${fix}`);
  }
  if (!isWritable(dir)) return dir;
  restrictMode(dir, 0o700);
  // Corrects modes left by an older umask or a copy. Secret files are refused instead, see readPrivateFile.
  for (const file of ["keyrack.db", "keyrack.db-wal", "keyrack.db-shm", LOCK_FILE])
    restrictMode(join(dir, file), 0o600);
  return dir;
}

/**
 * For commands on a stopped server. Its own files, if there are any, say which user it runs as: a file that root
 * creates there is one that it cannot read.
 */
export function refuseRootOnForeignDir(dir: string): void {
  if (process.geteuid?.() !== 0) return;
  const paths = [LOCK_FILE, "master.key", "."].map((name) => join(dir, name));
  const uid = paths.map((path) => statSync(path, { throwIfNoEntry: false })).find((found) => found)?.uid ?? 0;
  if (uid !== 0)
    throw new BadSetting(`${dir} belongs to another user. Run this as that user: sudo -u '#${uid}' keyrack …`);
}

function restrictMode(path: string, mode: number): void {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found && found.uid === process.getuid?.() && (found.mode & 0o777) !== mode) chmodSync(path, mode);
}

/**
 * Reads a file that holds a secret. One that other users can read is refused: it may have leaked already. A file of
 * root's may be readable by a group: a secret mounted into a container is, and its user could not read it otherwise.
 */
export function readPrivateFile(file: string): string {
  try {
    const { uid, mode } = statSync(file);
    const forOthers = uid === 0 && process.geteuid?.() !== 0 ? 0o037 : 0o077;
    if ((mode & forOthers) !== 0) throw new BadSetting(`${file} is readable by others. Run: chmod 600 ${file}`);
    return readFileSync(file, "latin1");
  } catch (error) {
    if (error instanceof BadSetting) throw error;
    throw new BadSetting(`${file} cannot be read: ${codeOf(error)}.`);
  }
}

/**
 * Creates a file that holds a secret, unless there is one: another process that shares the folder may be first. Returns
 * whether it did. `setting` can name another file.
 */
export function createPrivateFile(file: string, text: string, setting: string): boolean {
  try {
    createFileDurably(file, text);
    return true;
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    throw new BadSetting(`${file} cannot be written: ${codeOf(error)}. Check its folder, or set ${setting}.`);
  }
}

/** A symlink to the SQLite file is followed: SQLite names the -wal after the real file, and so must the lock be. */
export function databaseTarget(settings: Settings, dir: string): DatabaseTarget {
  const { database_url: setting } = settings;
  if (setting.kind === "postgres") return { kind: "postgres", url: setting.url, pool: settings.database_pool };
  const file = setting.kind === "sqlite" ? resolve(setting.file) : join(dir, DEFAULT_FILE);
  return { kind: "sqlite", file: followLink(file) };
}

/** Unlike realpath, also when the file that the link names does not exist yet: SQLite creates it there. */
function followLink(file: string): string {
  let at = file;
  for (let links = 0; links < 40; links++) {
    try {
      at = resolve(realpathSync(dirname(at)), readlinkSync(at));
    } catch {
      break; // not a link, or it does not exist
    }
  }
  return at;
}

/** A database that this user may not read is not a missing one. */
export function requireDatabase(file: string): void {
  try {
    statSync(file);
  } catch (error) {
    const code = codeOf(error);
    if (code === "ENOENT" || code === "ENOTDIR")
      throw new BadSetting(`There is no database at ${file}. Name its data dir with --data-dir.`);
    const fix = code === "EACCES" ? " Run this as the user that runs the server." : "";
    throw new BadSetting(`${file} cannot be read: ${code}.${fix}`);
  }
}

/** Locks the data dir and the SQLite file: two data dirs may name the same database. */
export function lockSqlite(dir: string, file: string, { allowNetworkFs = false } = {}): DataDirLock {
  if (!allowNetworkFs) {
    requireLocal("data dir", dir);
    if (existsSync(dirname(file))) requireLocal("database", dirname(file));
  }
  const dirLock = lockDataDir(dir);
  if (isDefaultFile(dir, file)) return dirLock;
  try {
    const fileLock = lockDatabaseFile(file);
    return {
      release() {
        fileLock.release();
        dirLock.release();
      },
    };
  } catch (error) {
    dirLock.release();
    throw error;
  }
}

function requireLocal(what: string, dir: string): void {
  const network = networkFileSystem(dir);
  if (network)
    throw new BadSetting(
      `The ${what} is on ${network}, where SQLite's locks do not hold. Use a local disk, or --allow-network-fs.`,
    );
}

const bytesOf = (file: string): number => {
  const found = statSync(file, { throwIfNoEntry: false });
  return found?.isFile() ? found.size : 0;
};

/**
 * Refuses a file of another kind, such as a mistyped path. Without SQLite's header, the data dir's own file, or one
 * with a -wal, is a damaged database instead.
 */
export function requireDatabaseFile(dir: string, file: string): void {
  if (bytesOf(file) === 0 || bytesOf(`${file}-wal`) > 0 || isDefaultFile(dir, file) || isSqliteFile(file)) return;
  throw new BadSetting(`${file} is not a Keyrack database.`);
}

/** The data dir's lock is also that of the database at its default place. */
function isDefaultFile(dir: string, file: string): boolean {
  const folder = dirname(file);
  return basename(file) === DEFAULT_FILE && existsSync(folder) && realpathSync(folder) === realpathSync(dir);
}
