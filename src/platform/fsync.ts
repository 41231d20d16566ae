// Durable file operations: what these functions wrote survives a power cut once they return.
// Caution: a file and its name are synced separately. A synced file in an unsynced directory can lose its name.
import { randomBytes } from "node:crypto";
import {
  closeSync,
  constants,
  copyFileSync,
  existsSync,
  fstatSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { open, rename, rm, writeFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { codeOf } from "./errors.ts";

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

/** Creates a file that only its owner can read: all of it, or nothing. Fails with EEXIST if there is one. */
export function createFileDurably(path: string, text: string): void {
  const temporary = temporaryName(path);
  try {
    writeFileSync(temporary, text, { mode: 0o600, flag: "wx", flush: true });
    nameFile(temporary, path);
  } finally {
    rmSync(temporary, { force: true });
  }
  fsyncDir(dirname(path));
}

/** Without hard links the check and the rename are two steps, but no part of the file is ever seen. */
function nameFile(temporary: string, path: string): void {
  try {
    linkSync(temporary, path);
  } catch (error) {
    if (codeOf(error) === "EEXIST") throw error;
    if (existsSync(path)) throw Object.assign(new Error(`EEXIST: ${path}`), { code: "EEXIST" });
    renameSync(temporary, path);
  }
}

/** Gives a file a second name, without syncing the directory. Fails with EEXIST if there is such a file. */
export function linkOrCopy(path: string, name: string): void {
  try {
    linkSync(path, name);
  } catch (error) {
    if (codeOf(error) === "EEXIST") throw error;
    copyFileSync(path, name, constants.COPYFILE_EXCL); // no hard links on this file system
    fsyncFile(name);
  }
}

/** Random: processes in containers that share a folder have the same pid. */
const temporaryName = (path: string): string => `${path}.${randomBytes(6).toString("hex")}.tmp`;

/** Creates or replaces a file by a rename, so that readers see the old contents or the new, never a part. */
export function writeFileAtomically(path: string, data: string | Uint8Array, mode = 0o600): void {
  const temporary = temporaryName(path);
  try {
    writeFileSync(temporary, data, { mode, flag: "wx", flush: true });
    renameSync(temporary, path);
  } finally {
    rmSync(temporary, { force: true });
  }
  fsyncDir(dirname(path));
}

/** The same without blocking the event loop: for what a server writes while it serves. */
export async function writeFileAtomicallyAsync(path: string, data: string | Uint8Array, mode = 0o600): Promise<void> {
  const temporary = temporaryName(path);
  try {
    await writeFile(temporary, data, { mode, flag: "wx", flush: true });
    await rename(temporary, path);
  } finally {
    await rm(temporary, { force: true });
  }
  await fsyncAsync(dirname(path));
}

/**
 * Creates a folder that only its owner can use, and missing parents; returns those it created, outermost first. Not
 * mkdir's `recursive`, which never returns if the file system refuses a folder with ENOENT, as /proc does.
 */
export function createDir(dir: string): string[] {
  const path = resolve(dir);
  const isDir = (): boolean => existsSync(path) && statSync(path).isDirectory();
  if (isDir()) return [];
  const created = existsSync(dirname(path)) ? [] : createDir(dirname(path));
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if (!isDir()) throw error; // else another process was first
  }
  return [...created, path];
}

/** The same, with each name synced. */
export async function createDirDurably(dir: string): Promise<void> {
  for (const path of createDir(dir)) await fsyncAsync(dirname(path));
}

/** Syncs a file or the names in a directory, without blocking the event loop: gigabytes take seconds. */
export async function fsyncAsync(path: string): Promise<void> {
  const handle = await open(path, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Removes a file or folder if there is one, without blocking the event loop: a large file takes long. */
export const removeLarge = (path: string): Promise<void> => rm(path, { recursive: true, force: true });

/** Appends all of a text to an open file. A pipe or a device can only be written: it refuses to be synced. */
export function appendDurably(descriptor: number, text: string): void {
  writeFileSync(descriptor, text);
  if (fstatSync(descriptor).isFile()) fsyncSync(descriptor);
}
