// Files that the shell has opened for this process, such as standard output of `keyrack … --out /dev/stdout > FILE`.
// Caution: opened a second time, such a file has a second position, and what is printed to standard output or standard
// error overwrites the keys. They are written through the descriptor itself, and results are printed to standard error.
import { fstatSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { print } from "../../ui/output.ts";

const NAMES: Readonly<Record<string, number>> = { "/dev/stdout": 1, "/dev/stderr": 2 };

/** The descriptor that a path names, if it is a regular file. Null for a pipe or a device, which have no position. */
export function inheritedFile(path: string): number | null {
  const name = resolve(path);
  const descriptor = NAMES[name] ?? Number(/^\/(?:dev|proc\/self)\/fd\/(\d{1,9})$/.exec(name)?.[1]);
  if (Number.isNaN(descriptor)) return null;
  try {
    return fstatSync(descriptor).isFile() ? descriptor : null;
  } catch {
    return null; // not open: opening the path gives the reason
  }
}

/** Prints results to standard error where standard output is the file of new keys, which must hold nothing else. */
export function printerBeside(keysFile: string | null | undefined): (text: string) => void {
  return keysFile && isStdout(keysFile) ? (text) => void process.stderr.write(`${text}\n`) : print;
}

/** False for a terminal and for /dev/null: keys and results do not get in each other's way there. */
function isStdout(path: string): boolean {
  try {
    const [target, stdout] = [statSync(path, { bigint: true }), fstatSync(1, { bigint: true })];
    return target.dev === stdout.dev && target.ino === stdout.ino && !target.isCharacterDevice();
  } catch {
    return false; // not there yet, or not to be opened either
  }
}
