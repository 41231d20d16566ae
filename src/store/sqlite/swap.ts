// Puts a finished SQLite file in the place of another. The traps: a -wal that is left beside a new file is replayed into
// it by whoever opens it next, and a -wal that is not moved along takes what was committed with it.
import {
  closeSync,
  constants,
  copyFileSync,
  linkSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { dirname } from "node:path";
import { fsyncDir } from "../../platform/fsync.ts";
import { connectSqlite } from "./open.ts";

const TAILS = ["-wal", "-shm", "-journal"];

export function removeSqlite(file: string): void {
  for (const tail of ["", ...TAILS]) rmSync(file + tail, { force: true });
}

const bytesOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0;

/** `replaced` is where the old file is kept. Cut short at any point, `file` is the old database or the new one. */
export function swapSqlite(fresh: string, file: string, replaced: string): void {
  if (bytesOf(`${fresh}-wal`) > 0)
    throw new Error(`${fresh} could not be finished, so nothing was replaced. Is the disk full?`);
  if (bytesOf(file) > 0) {
    foldLog(file);
    keep(file, replaced);
  }
  // What is still there belongs to a database that is gone, or to one that is too damaged to be opened.
  for (const tail of TAILS) {
    if (tail !== "-shm" && bytesOf(file + tail) > 0) renameSync(file + tail, replaced + tail);
    else rmSync(file + tail, { force: true });
  }
  renameSync(fresh, file);
  fsyncDir(dirname(file));
}

/** SQLite's name, and at 18 and 19 that it writes to a log. To a file without these SQLite's own opening takes the log away. */
function hasLogMode(file: string): boolean {
  const head = Buffer.alloc(20);
  const descriptor = openSync(file, "r");
  readSync(descriptor, head);
  closeSync(descriptor);
  return head.toString("latin1").startsWith("SQLite format 3\0") && head[18] === 2 && head[19] === 2;
}

/** With its log moved into it, the old file is whole by itself. */
function foldLog(file: string): void {
  if (bytesOf(`${file}-wal`) === 0 || !hasLogMode(file)) return;
  try {
    const db = connectSqlite(file, { timeout: 0 });
    try {
      db.pragma("wal_checkpoint(TRUNCATE)");
    } finally {
      db.close();
    }
  } catch {
    // Damaged: its log is kept beside it.
  }
}

/** A second name, so that the first one always stands for a database. */
function keep(file: string, replaced: string): void {
  try {
    linkSync(file, replaced);
  } catch {
    copyFileSync(file, replaced, constants.COPYFILE_EXCL); // a file system without links; what is kept there stays
  }
}
