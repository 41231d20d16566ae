// Replaces a SQLite file with a finished one. Caution: a -wal left beside the new file is replayed into it at the next
// open, and a -wal separated from the old file loses commits.
import { renameSync, rmSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { fsyncDir, linkOrCopy } from "../../platform/fsync.ts";
import { isInWalMode } from "./header.ts";
import { connectSqlite } from "./open.ts";

const SUFFIXES = ["-wal", "-shm", "-journal"];

export function removeSqlite(file: string): void {
  for (const tail of ["", ...SUFFIXES]) rmSync(file + tail, { force: true });
}

const bytesOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0;

/** Keeps the old file as `replaced`. Interrupted at any point, `file` is either the old database or the new one. */
export function swapSqlite(fresh: string, file: string, replaced: string): void {
  if (bytesOf(`${fresh}-wal`) > 0)
    throw new Error(`${fresh} is incomplete, so nothing was replaced. Is the disk full?`);
  if (bytesOf(file) > 0) {
    checkpointLog(file);
    linkOrCopy(file, replaced); // a second name, so that the first one never disappears
  }
  // Logs that remain belong to a deleted database, or to one too damaged to be opened.
  for (const tail of SUFFIXES) {
    if (tail !== "-shm" && bytesOf(file + tail) > 0) renameSync(file + tail, replaced + tail);
    else rmSync(file + tail, { force: true });
  }
  renameSync(fresh, file);
  fsyncDir(dirname(file));
}

/** Moves the -wal into the old file, so that it is complete by itself. */
function checkpointLog(file: string): void {
  if (bytesOf(`${file}-wal`) === 0 || !isInWalMode(file)) return;
  try {
    const db = connectSqlite(file, { timeout: 0 });
    try {
      db.pragma("wal_checkpoint(TRUNCATE)");
    } finally {
      db.close();
    }
  } catch {
    // Damaged: its -wal is kept beside it.
  }
}
