// Durable file operations: what these functions wrote survives a power cut once they return.
// Caution: a file and its name are synced separately. A synced file in an unsynced directory can lose its name.
import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { dirname } from "node:path";

/** Syncs the contents of a file. */
export function fsyncFile(path: string): void {
  const descriptor = openSync(path, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
}

/** Syncs the names in a directory: files created, renamed and removed there. */
export const fsyncDir: (dir: string) => void = fsyncFile;

/** Creates a file that only its owner can read. Fails with EEXIST where there is one. */
export function createFileDurably(path: string, text: string): void {
  writeFileSync(path, text, { mode: 0o600, flag: "wx", flush: true });
  fsyncDir(dirname(path));
}

/** Creates or replaces a file by a rename, so that readers see the old contents or the new, never a part. */
export function writeFileAtomically(path: string, data: string | Uint8Array, mode = 0o600): void {
  const temporary = `${path}.${process.pid}.tmp`;
  rmSync(temporary, { force: true }); // left by a crashed process with the same pid
  writeFileSync(temporary, data, { mode, flag: "wx", flush: true });
  renameSync(temporary, path);
  fsyncDir(dirname(path));
}

/** Appends to an open file. */
export function appendDurably(descriptor: number, text: string): void {
  writeSync(descriptor, text);
  fsyncSync(descriptor);
}
